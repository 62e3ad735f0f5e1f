"""Render pivoted tables and figures for LaTeX, Markdown and HTML, with the same numbers in each."""

import html
from collections.abc import Iterable, Sequence
from itertools import groupby, zip_longest
from textwrap import wrap

from lhaw_record.analytics.paper.pivot import Pivot, PivotCell, PivotLine
from lhaw_record.analytics.tables.render import markdown_text, tex_text

DASH = "—"
FIT = (
    r"\providecommand{\fitline}[1]{\sbox0{#1}\ifdim\wd0>\linewidth"
    r"\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi}"
)
"""Shrinks content that is wider than the line. Needs graphicx."""
_HEAD_LETTERS = 14
_NAME_LETTERS = 26
_MOST_ABREAST = 10
"""How many values and gains fit side by side. If there are more, gains are printed below their values."""
_PAGE_LINES = 48
_CONTINUED = "Continued."
_PUNCTUATION = "\u2013\u2014\u2018\u2019\u201c\u201d\u2022\u2026\u20ac"

LATEX_PAGE = r"""% {title}: made by lhaw-record. Tables and figures are files for papers of yours, too.
\documentclass[10pt]{{article}}
\usepackage[T1]{{fontenc}}
\IfFileExists{{lmodern.sty}}{{\usepackage{{lmodern}}}}{{}}  % without it some installations embed bitmaps
\usepackage{{textcomp,booktabs,graphicx}}
\usepackage[margin=2.2cm]{{geometry}}
\setlength{{\belowcaptionskip}}{{0.6em}}
\nofiles  % no place here refers to another, so one run is enough; remove it where you use \ref
\begin{{document}}
\title{{{title}}}\author{{}}\date{{}}\maketitle
{body}
\end{{document}}
"""


def to_latex(table: Pivot) -> str:
    """Return a table as a float, or as several floats if it is longer than a page.

    It needs booktabs, graphicx and, for quotes, fontenc (T1) and textcomp.
    """
    caption = rf"\caption{{{_tex(table.caption)}}}\label{{tab:{table.name}}}"
    floats = [
        _float(table, lines, rf"\addtocounter{{table}}{{-1}}\caption[]{{{_CONTINUED}}}" if place else caption)
        for place, lines in enumerate(_pages(table))
    ]
    floats[-1][-1:] = [*_latex_notes(table), *floats[-1][-1:]]
    heads = [*(f"% {note}" for note in table.cautions), FIT]
    return "\n".join([*heads, *(line for each in floats for line in each), ""])


def _pages(table: Pivot) -> list[list[PivotLine]]:
    pages: list[list[PivotLine]] = [[]]
    room, heading = _PAGE_LINES, ""
    own = 2 if table.has_intervals else 1
    own *= 2 if table.has_gains and 2 not in _widths(table) else 1
    for line in table.lines:
        height = max(own, len(_broken(line.name, _NAME_LETTERS))) + 2 * (line.heading != heading)
        if height > room:
            pages.append([])
            room = _PAGE_LINES - 2  # the heading again
        pages[-1].append(line)
        room, heading = room - height, line.heading
    return pages


def _float(table: Pivot, lines: Sequence[PivotLine], caption: str) -> list[str]:
    widths = _widths(table)
    shape = "".join(r"r@{\hspace{0.35em}}l" if width == 2 else "r" for width in widths)
    return [
        r"\begin{table}[!htbp]",
        r"\centering\small",
        caption,
        r"\fitline{%",
        rf"\begin{{tabular}}{{@{{}}l{shape}@{{}}}}",
        r"\toprule",
        *_latex_heads(table, widths),
        r"\midrule",
        *_latex_lines(lines, widths),
        r"\bottomrule",
        r"\end{tabular}}",
        r"\end{table}",
    ]


def _widths(table: Pivot) -> list[int]:
    """Return how many LaTeX columns each column takes: 2 if gains are printed next to their values."""
    abreast = [2 if table.has_gain(place) else 1 for place in range(len(table.heads))]
    return abreast if sum(abreast) <= _MOST_ABREAST else [1] * len(abreast)


def to_markdown(table: Pivot) -> str:
    """Return a table in Markdown, with its caption above it and all notes."""
    head = [table.corner, *(", ".join(parts) for parts in table.heads)]
    has_heading = any(line.heading for line in table.lines)
    rows = [[line.name, *(_markdown(cell) for cell in line.cells)] for line in table.lines]
    if has_heading:
        head = ["", *head]
        rows = [[line.heading, *row] for line, row in zip(table.lines, rows, strict=True)]
    escaped = [[markdown_text(part) for part in row[: 2 if has_heading else 1]] for row in rows]
    lines = [
        "| " + " | ".join(map(markdown_text, head)) + " |",
        "|" + "|".join(["---"] * (2 if has_heading else 1) + ["---:"] * len(table.heads)) + "|",
        *("| " + " | ".join([*names, *row[len(names) :]]) + " |" for names, row in zip(escaped, rows, strict=True)),
    ]
    notes = [f"<sup>{mark}</sup> {markdown_text(reason)}" for mark, reason in table.reasons.items()]
    notes += [markdown_text(remark) for remark in (*table.remarks, *table.cautions)]
    parts = [f'<a id="tab-{table.name}"></a>**{markdown_text(table.caption)}**', "\n".join(lines)]
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in notes)]) + "\n"


def to_html(table: Pivot) -> str:
    """Return a table in HTML, for notebooks."""
    out = [f"<table><caption>{html.escape(table.caption)}</caption><thead>"]
    depth = len(table.heads[0])
    for level in range(depth):
        corner = html.escape(table.corner) if level == depth - 1 else ""
        spans = _spans(table, level)
        out.append(f"<tr><th>{corner}</th>")
        out += [f'<th colspan="{count}" style="text-align:center">{html.escape(text)}</th>' for text, count in spans]
        out.append("</tr>")
    out.append("</thead><tbody>")
    for heading, lines in groupby(table.lines, key=lambda line: line.heading):
        if heading:
            out.append(
                f'<tr><th colspan="{1 + len(table.heads)}" style="text-align:left">{html.escape(heading)}</th></tr>'
            )
        out += [_html_line(line) for line in lines]
    notes = [f"<sup>{mark}</sup> {html.escape(reason)}" for mark, reason in table.reasons.items()]
    notes += [html.escape(remark) for remark in table.remarks]
    return "".join([*out, "</tbody></table>", "<small>", "; ".join(notes), "</small>"])


def latex_figure(name: str, caption: str) -> str:
    """Return a float with a figure from the folder ``figures``. Needs graphicx."""
    return "\n".join(
        [
            FIT,
            r"\begin{figure}[!htbp]",
            r"\centering",
            rf"\fitline{{\includegraphics{{figures/{name}.pdf}}}}",
            rf"\caption{{{_tex(caption)}}}\label{{fig:{name}}}",
            r"\end{figure}",
            "",
        ]
    )


def _spans(table: Pivot, level: int) -> list[tuple[str, int]]:
    """Return the headings of a level, each with the number of columns that share it and all headings above it."""
    groups = groupby(table.heads, key=lambda head: head[: level + 1])
    return [(head[-1], sum(1 for _ in members)) for head, members in groups]


def _latex_heads(table: Pivot, widths: Sequence[int]) -> Iterable[str]:
    depth = len(table.heads[0])
    for level in range(depth):
        is_last = level == depth - 1
        parts, rules, first = [_tex(table.corner) if is_last else ""], [], 0
        for text, count in _spans(table, level):
            columns = sum(widths[first : first + count])
            start = 2 + sum(widths[:first])
            stacked = r"\\".join(map(_tex, _broken(text, _HEAD_LETTERS * columns)))
            shown = rf"\shortstack{{{stacked}}}" if r"\\" in stacked else stacked
            parts.append(rf"\multicolumn{{{columns}}}{{c}}{{{shown}}}")
            rules.append(rf"\cmidrule(lr){{{start}-{start + columns - 1}}}")
            first += count
        yield " & ".join(parts) + r" \\"
        if not is_last:
            yield "".join(rules)


def _latex_lines(lines: Sequence[PivotLine], widths: Sequence[int]) -> Iterable[str]:
    heading = ""
    for place, line in enumerate(lines):
        if line.heading != heading:
            heading = line.heading
            if place:
                yield r"\addlinespace[0.6em]"
            yield rf"\multicolumn{{{1 + sum(widths)}}}{{@{{}}l}}{{\emph{{{_tex(heading)}}}}} \\"
        name, cells = map(_tex, _broken(line.name, _NAME_LETTERS)), _latex_rows(line, widths)
        rows = [[part, *(row or [""] * sum(widths))] for part, row in zip_longest(name, cells, fillvalue="")]
        for row in rows[:-1]:
            yield " & ".join(row) + r" \\"
        yield " & ".join(rows[-1]) + (r" \\[0.25em]" if len(rows) > 1 else r" \\")


def _broken(text: str, width: int) -> list[str]:
    """Break a text at spaces, and too long words after a hyphen, underscore or slash, or anywhere."""
    lines = []
    for words in wrap(text, width, break_long_words=False, break_on_hyphens=False):
        rest = words
        while len(rest) > width:
            end = max(rest.rfind(mark, 0, width) for mark in "-_/") + 1 or width
            lines.append(rest[:end])
            rest = rest[end:]
        lines.append(rest)
    return lines or [text]


def _latex_rows(line: PivotLine, widths: Sequence[int]) -> list[list[str]]:
    """Return the LaTeX rows of a line: values, then intervals, then gains without a column of their own."""
    rows: list[list[str]] = [[], [], [], []]
    for cell, width in zip(line.cells, widths, strict=True):
        value = _number(cell.value) if cell.value else "---" if cell.is_there else ""
        value = (rf"\textbf{{{value}}}" if cell.is_best else value) + _raised(cell.mark)
        gain = "" if cell.gain is None else f"({_number(cell.gain) if cell.gain else '---'}{_raised(cell.gain_mark)})"
        interval, gain_interval = _small(cell.interval), _small(cell.gain_interval)
        if 2 in widths:
            texts = [[value, gain][:width], [interval, gain_interval][:width], [], []]
        else:
            texts = [[value], [interval], [gain], [gain_interval]]
        for row, added in zip(rows, texts, strict=True):
            row.extend(added)
    return [row for place, row in enumerate(rows) if place == 0 or any(row)]


def _raised(mark: str) -> str:
    return rf"\textsuperscript{{{mark}}}" if mark else ""


def _small(interval: str) -> str:
    return rf"{{\scriptsize {_number(interval)}}}" if interval else ""


def _number(text: str) -> str:
    """Typeset signs and comparisons of numbers in math mode."""
    signs = {"-": "$-$", "+": "$+$", "<": "$<$", ">": "$>$", "[": "{[}", "]": "{]}"}
    return "".join(signs.get(letter, letter) for letter in text)


def _latex_notes(table: Pivot) -> list[str]:
    notes = [rf"\textsuperscript{{{mark}}}\,{_tex(reason)}." for mark, reason in table.reasons.items()]
    notes += [f"{_tex(remark[0].upper() + remark[1:])}." for remark in table.remarks]
    if not notes:
        return []
    return [r"\par\medskip", r"\parbox{\linewidth}{\footnotesize\raggedright " + " ".join(notes) + "}"]


def _tex(text: str) -> str:
    """Escape text for LaTeX. Characters that common fonts lack are shown as code points."""
    return "".join(
        tex_text(letter) if ord(letter) < 0x180 or letter in _PUNCTUATION else rf"{{\small U+{ord(letter):04X}}}"
        for letter in text.replace("\n", " ")
    )


def _markdown(cell: PivotCell) -> str:
    if not cell.is_there:
        return ""
    value = f"**{cell.value}**" if cell.is_best else cell.value or DASH
    parts = [_marked(value, cell.mark), cell.interval]
    if cell.gain is not None:
        gain = " ".join(filter(None, [_marked(cell.gain or DASH, cell.gain_mark), cell.gain_interval]))
        parts.append(f"({gain})")
    return (
        " ".join(filter(None, parts)).replace("<", "&lt;").replace("&lt;sup>", "<sup>").replace("&lt;/sup>", "</sup>")
    )


def _marked(text: str, mark: str) -> str:
    return f"{text}<sup>{mark}</sup>" if mark else text


def _html_line(line: PivotLine) -> str:
    cells = []
    for cell in line.cells:
        if not cell.is_there:
            cells.append("<td></td>")
            continue
        value = html.escape(cell.value or DASH)
        value = f"<b>{value}</b>" if cell.is_best else value
        gain = "" if cell.gain is None else f" ({_marked(html.escape(cell.gain or DASH), cell.gain_mark)})"
        intervals = html.escape(" ".join(filter(None, [cell.interval, cell.gain_interval])))
        small = f"<br><small>{intervals}</small>" if intervals else ""
        cells.append(f"<td>{_marked(value, cell.mark)}{gain}{small}</td>")
    return f"<tr><td>{html.escape(line.name)}</td>{''.join(cells)}</tr>"
