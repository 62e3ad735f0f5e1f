"""Make the tables and figures of a paper from a store, show them in a notebook, and write them to a folder."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from lhaw_record.analytics.comparison.published import comparison_of, printed_tables
from lhaw_record.analytics.errors import AnalyticsError, UnknownName
from lhaw_record.analytics.figures.catalogue import paint
from lhaw_record.analytics.figures.catalogue import spec_of as figure_spec_of
from lhaw_record.analytics.figures.drawing import NothingToDraw, Row, read, to_bytes
from lhaw_record.analytics.paper.pivot import Empty, Pivot, pivot
from lhaw_record.analytics.paper.render import LATEX_PAGE, latex_figure, to_html, to_latex, to_markdown
from lhaw_record.analytics.paper.spec import FigureChoice, PaperSpec
from lhaw_record.analytics.tables.catalogue import ORDERS
from lhaw_record.analytics.tables.filters import Filter, known_filter
from lhaw_record.analytics.tables.labels import BENCHMARKS
from lhaw_record.analytics.tables.notes import background, caption_notes
from lhaw_record.analytics.tables.render import markdown_text, tex_text
from lhaw_record.analytics.tables.render import to_markdown as to_markdown_list
from lhaw_record.analytics.tables.tables import Table, tables
from lhaw_record.analytics.views.parameters import Setting, values_of
from lhaw_record.analytics.views.rows import BrokenClaim
from lhaw_record.analytics.views.store import checks, claims, read_for
from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.recorder.cli.output import write_file
from lhaw_record.recorder.wording import did_you_mean

_RENAMED = ("agent", "other_agent", "benchmark")


class PaperTable(msgspec.Struct, frozen=True):
    """A table of a paper. A notebook shows it as HTML."""

    pivot: Pivot

    @property
    def latex(self) -> str:
        """The table as a float; :func:`lhaw_record.analytics.paper.render.to_latex` lists the needed packages."""
        return to_latex(self.pivot)

    @property
    def markdown(self) -> str:
        """The table in Markdown."""
        return to_markdown(self.pivot)

    def _repr_html_(self) -> str:
        return to_html(self.pivot)


class PaperFigure(msgspec.Struct, frozen=True):
    """A figure of a paper: its caption and files. A notebook shows it."""

    name: str
    caption: str
    pdf: bytes
    svg: bytes

    def _repr_svg_(self) -> str:
        return self.svg.decode()


class Paper(msgspec.Struct, frozen=True, kw_only=True):
    """The tables and figures of a paper, by name.

    Attributes:
        title: The title of the document.
        left_out: The reason for each table or figure that is left out, by name.
        compared: Every table that a paper prints, ours beside it. paper.md has them.
        notes: What the specification names and the store lacks.
        broken_claims: Claims about the store that do not hold.
    """

    title: str
    tables: Mapping[str, PaperTable]
    figures: Mapping[str, PaperFigure]
    left_out: Mapping[str, str]
    compared: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    broken_claims: tuple[BrokenClaim, ...] = ()

    def write(self, folder: Path | str) -> list[Path]:
        """Write every table as .tex, every figure as .pdf and .svg, paper.tex and paper.md, and return their paths."""
        root, written = Path(folder), []
        files = {f"tables/{name}.tex": each.latex.encode() for name, each in self.tables.items()}
        for name, each in self.figures.items():
            files |= {f"figures/{name}.pdf": each.pdf, f"figures/{name}.svg": each.svg}
        files |= {"paper.tex": self._latex().encode(), "paper.md": self._markdown().encode()}
        for name, content in files.items():
            write_file(root / name, content)
            written.append(root / name)
        return written

    def _latex(self) -> str:
        body = [rf"\input{{tables/{name}}}" for name in self.tables]
        body += [latex_figure(name, each.caption) for name, each in self.figures.items()]
        return LATEX_PAGE.format(title=tex_text(self.title), body="\n".join(body))

    def _markdown(self) -> str:
        parts = [f"# {markdown_text(self.title)}", *(each.markdown for each in self.tables.values())]
        for name, each in self.figures.items():
            parts.append(f"![{markdown_text(each.caption)}](figures/{name}.svg)\n\n**{markdown_text(each.caption)}**")
        parts += [to_markdown_list(each) for each in self.compared]
        parts += [f"Left out, {name}: {markdown_text(reason)}." for name, reason in self.left_out.items()]
        return "\n\n".join(part.strip() for part in parts) + "\n"


def make(
    store: Path,
    spec: PaperSpec,
    *,
    settings: Mapping[str, Setting] | None = None,
    only: Filter | None = None,
    is_compared: bool = False,
) -> Paper:
    """Make the tables and figures of a paper. ``is_compared`` sets printed numbers beside ours, in their reading."""
    reading: dict[str, Setting] = {"reading": "paper"} if is_compared else {}
    parameters = {**reading, **spec.settings, **(settings or {})}
    printed = printed_tables(spec.printed) if is_compared else ()
    names = list(dict.fromkeys([*(each.table for each in spec.tables), *printed]))
    drawn = [figure_spec_of(each.figure) for each in spec.figures]
    reads = {view for each in drawn for view in each.reads}
    connection = open_store(store, parameters=parameters, only=read_for({*names, *reads, *claims()}))
    values = values_of(parameters)
    try:
        computed = {each.name: each for each in tables(connection, names)}
        rows = [row for each in computed.values() for row in each.rows]
        shown = known_filter(only.wanted, rows) if only else Filter()
        unequal = connection.execute("select benchmark from exclusions where kind like '%_not_common'").fetchall()
        said = caption_notes(background(connection))
        made, figures, left_out = {}, {}, {}
        for choice in spec.tables:
            try:
                one = pivot(
                    computed[choice.table],
                    choice,
                    only=shown,
                    names=spec.names,
                    parameters=values,
                    unequal=[benchmark for (benchmark,) in unequal],
                    said=said,
                )
                made[choice.label] = PaperTable(one)
            except Empty as reason:
                left_out[choice.label] = str(reason)
        for figure in spec.figures:
            if figure.keep or spec.names:
                of_figure = [row for view in figure_spec_of(figure.figure).reads for row in read(connection, view)]
                _check_kept(figure, of_figure)
                rows += of_figure
            try:
                painted = paint(connection, figure.figure, title="", shown=_Shown(figure, shown, spec.names))
            except NothingToDraw as reason:
                left_out[figure.label] = str(reason)
                continue
            caption = figure.caption or f"{figure_spec_of(figure.figure).title}."
            caption = " ".join([caption, *(f"{each[0].upper()}{each[1:]}." for each in said)])
            files = (to_bytes(painted, form, has_paths=True) for form in ("pdf", "svg"))
            figures[figure.label] = PaperFigure(figure.label, caption, *files)
        absent = [
            f"{name} keeps {value}, which no row of the table has"
            for name, each in made.items()
            for value in each.pivot.absent
        ]
        return Paper(
            title=spec.title,
            tables=made,
            figures=figures,
            left_out=left_out,
            compared=tuple(comparison_of(computed[name], spec.printed) for name in printed),
            notes=(*absent, *(_unused(spec.names, rows) if rows else ())),
            broken_claims=checks(connection),
        )
    finally:
        connection.close()


def _unused(names: Mapping[str, str], rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each name that matches nothing in the tables, which may be a typo."""
    known = {str(value) for row in rows for key, value in row.items() if isinstance(value, str) and key != "reason"}
    known |= {value for values in ORDERS.values() for value in values}
    for name in names:
        if name not in known:
            yield f"names has {name!r}, which is in no table{did_you_mean(name, known)}"


def _check_kept(choice: FigureChoice, rows: Sequence[Row]) -> None:
    """Raise an error if a figure keeps an agent or benchmark that its rows lack. Empty rows pass."""
    try:
        known_filter(choice.keep if rows else {}, rows)
    except UnknownName as error:
        raise AnalyticsError(f"figure {choice.label}: keep: {error}") from None


class _Shown(msgspec.Struct, frozen=True):
    """Pick the rows that a figure draws, and rename agents and benchmarks for display."""

    choice: FigureChoice
    only: Filter
    names: Mapping[str, str]

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        kept = self.only.of_figures().rows(Filter(self.choice.keep).rows(rows))
        return [{key: self._named(key, value) for key, value in row.items()} for row in kept]

    def _named(self, key: str, value: object) -> object:
        if key not in _RENAMED or not isinstance(value, str):
            return value
        return self.names.get(value) or (BENCHMARKS.get(value, value) if key == "benchmark" else value)


def write_spec(text: str, folder: Path) -> Path | None:
    """Write the specification beside what it made, unless another one is there. Return its path."""
    path = folder / "paper.toml"
    if path.exists() and path.read_bytes() != text.encode():
        return None
    write_file(path, text.encode())
    return path
