"""``lhaw-record findings``: say what the tables of a store show, as text, CSV or JSON."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TextIO

from lhaw_record.analytics.cli.table_output import compute
from lhaw_record.analytics.findings.findings import NEEDED, Finding, by_question, findings
from lhaw_record.analytics.tables.filters import known_filter
from lhaw_record.analytics.views.parameters import READINGS, parse_settings, values_of
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.cli.terminal import terminal_width

_WIDTH = 100
_COLUMNS = ("question", "benchmark", "agent", "verdict", "sentence", "settled_by", "table", "keys")
_MARKS = {"shown": "+", "measured": "=", "not shown": "?", "not known": "?"}


def print_findings(
    store: Path,
    measure: str,
    *,
    settings: Sequence[str],
    form: str,
    out: TextIO,
    wanted: Mapping[str, Sequence[str]] | None = None,
) -> int:
    """Print the findings of a store. Return 1 if a claim about the store does not hold, else 0."""
    chosen = parse_settings(settings)
    values = values_of(chosen)
    if "timing_measure" not in {*chosen, *READINGS[str(values["reading"])]}:
        values["timing_measure"] = measure
    tables, broken = compute(store, NEEDED, {**chosen, "timing_measure": values["timing_measure"]})
    by_name = {each.name: each for each in tables}
    found = findings(by_name, measure, str(values["timing_measure"]), float(str(values["confidence"])))
    if wanted:
        shown = known_filter(wanted, [row for each in tables for row in each.rows])
        kept = shown.rows({**each.keys, "finding": each} for each in found)
        found = tuple(row["finding"] for row in kept)
    if form == "table":
        out.write(_text(found, by_name["overall"].notes, min(_WIDTH, terminal_width(out) or _WIDTH)))
    else:
        rows = [{name: getattr(each, name) for name in _COLUMNS} for each in found]
        if form == "csv":
            rows = [{**row, "keys": json.dumps(row["keys"])} for row in rows]
        print_rows(rows, _COLUMNS, form, out)
    for claim in broken:
        say(f"claim {claim.claim} does not hold, e.g. {claim.rows[0]}")
    return 1 if broken else 0


def _text(found: Sequence[Finding], notes: Sequence[str], width: int) -> str:
    """Return the findings by question, those without a known answer last in each, then the notes on all of them."""
    lines, has_several = [], len({each.benchmark for each in found} - {"all"}) > 1
    for question, size, answers in by_question(found):
        lines.append(f"{question} ({size} per agent)" if size else question)
        for (first, *_), sentence in sorted(answers, key=lambda each: not each.findings[0].is_known):
            where = f"{first.benchmark}: " if has_several else ""
            settled = f" To settle it: {first.settled_by}." if first.settled_by else ""
            lead = f"  {_MARKS[first.verdict]} "
            lines += wrap(f"{where}{sentence}{settled}", width, initial_indent=lead, subsequent_indent="    ")
        lines.append("")
    lines += [part for note in notes for part in wrap(note, width, initial_indent="  ", subsequent_indent="    ")]
    return "\n".join([*lines, "", "+ shown   = measured   ? not shown or not known", ""])
