"""Build the report: tables, figures, cautions, missing data and trials in one self-contained HTML file."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import msgspec
from markupsafe import Markup

from lhaw_record.analytics.exports.atif_documents import ATIF_VIEWS, shown_documents
from lhaw_record.analytics.figures import FIGURES, NothingToDraw, paint, spec_of, to_bytes
from lhaw_record.analytics.figures.drawing import INK, LINE, PAPER, QUIET, SERIES
from lhaw_record.analytics.findings.findings import Finding, by_question, findings
from lhaw_record.analytics.report.cautions import cautions
from lhaw_record.analytics.report.facts import facts, missing
from lhaw_record.analytics.report.timelines import CHUNK_TRIALS, VIEWS, prompts, request_texts, timelines
from lhaw_record.analytics.report.trials import (
    BUDGET_CHARACTERS,
    choose_length,
    choose_trials,
    columnar,
    packed,
    trial_list,
)
from lhaw_record.analytics.tables.catalogue import GROUPS
from lhaw_record.analytics.tables.labels import (
    BENCHMARKS,
    column_label,
    column_meanings,
    label_with_unit,
    measure_meanings,
    measure_of,
)
from lhaw_record.analytics.tables.render import number_in_unit
from lhaw_record.analytics.tables.tables import TABLES, Table, tables
from lhaw_record.analytics.views.parameters import current, parse_settings
from lhaw_record.analytics.views.store import below_tables, checks, connect
from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.recorder.events import TaskRegistered, TrialsNoted, VariantGenerated
from lhaw_record.recorder.events.arrow_schema import to_table
from lhaw_record.recorder.html_templates import VIEWER, joined, render
from lhaw_record.recorder.reading.reader import Snapshot, read_envelopes, read_snapshot
from lhaw_record.recorder.reading.typed_rows import events_of_types
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.wording import CONDITION_LABELS

if TYPE_CHECKING:
    import duckdb

REPORT_STYLES = ("base.css", "trial.css", "report.css")
REPORT_SCRIPTS = ("unpack.js", "cells.js", "tables.js", "search.js", "trials.js", "timeline.js", "start.js")
ATTEMPT_STYLES = ("base.css", "trial.css", "attempt.css")
ATTEMPT_SCRIPTS = (*VIEWER, "unpack.js", "attempt.js")
MAIN_TABLES = ("overall", "by_class", "voi")
_PROMPT_CHARACTERS = 20_000
LABELS = json.dumps({"condition": CONDITION_LABELS, "benchmark": BENCHMARKS})
_ESTIMATE = ("value", "low", "high")
_COUNTED = ("task", "variant", "trial")
_MOST_AGENTS = 8


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The finished report, the number of trials that it lists, and the claims that do not hold for the store."""

    html: str
    trial_count: int
    broken_claims: tuple[str, ...]


def build(store: Path, *, settings: Sequence[str] = ()) -> Page:
    """Build the report on a store. Equal stores and settings give equal pages."""
    with open_store(store, parameters=parse_settings(settings), only=below_tables()) as connection:
        return page_of(connection, Store(store).address or store.resolve().name, Store(store))


def page_of(connection: "duckdb.DuckDBPyConnection", name: str, store: Store | None = None) -> Page:
    """Build the report on an open store. ``name`` is in the title; ``store`` has the texts of artifacts."""
    computed = {each.name: each for each in tables(connection, TABLES)}
    settings = current(connection)
    broken = checks(connection)
    found = cautions(connection, computed, broken)
    said = findings(computed, "pass_at_1", str(settings["timing_measure"]), float(str(settings["confidence"])))
    count, listed = choose_trials(connection)
    cut = choose_length(connection)
    documents = shown_documents(connection) if cut.characters <= BUDGET_CHARACTERS else []
    left_out = "" if listed == count else f" Of {count:,} trials {listed:,} are listed: the first of every cell."
    encoded = [_encoded(each) for each in computed.values()]
    data = {
        "data-tables": packed({"measures": _measures(computed, settings["k"]), "tables": encoded}),
        "data-trials": packed({"count": listed, "chunk": CHUNK_TRIALS, "columns": trial_list(connection)}),
        "data-prompts": packed(prompts(connection, _PROMPT_CHARACTERS)),
        "data-requests": packed(request_texts(connection, cut.length)),
    }
    for place, chunk in enumerate(timelines(connection, cut.length, store)):
        data[f"data-chunk-{place}"] = packed(chunk)
        data[f"data-atif-{place}"] = packed(documents[place * CHUNK_TRIALS :][:CHUNK_TRIALS])
    html = _rendered(
        "report",
        f"Report of {name}",
        REPORT_STYLES,
        (*VIEWER, *REPORT_SCRIPTS),
        contents=_contents(connection),
        findings=by_question(each for each in said if each.is_known),
        not_known=by_question(each for each in said if not each.is_known),
        has_bars=any(_interval(each, computed) for each in said),
        bar_of=partial(_interval, computed=computed),
        cell_of=partial(_cell, computed=computed),
        has_several=len({each.benchmark for each in said} - {"all"}) > 1,
        facts=facts(connection, settings, computed["trial_counts_and_cost"].rows),
        cautions=found,
        groups=_groups(computed),
        table_names=[each.name for each in computed.values()],
        main_tables=MAIN_TABLES,
        figures=graphics(connection),
        missing=missing(connection),
        texts=f"{cut}{left_out}",
        data=data,
    )
    return Page(html=html, trial_count=listed, broken_claims=tuple(each.claim for each in broken))


def attempt_data(root: Path, stream_id: str) -> dict[str, Any]:
    """Return what the viewer needs to show one attempt, also while it runs, without reading other trials."""
    snapshot = read_snapshot(root)
    shared = events_of_types(snapshot, (TaskRegistered, VariantGenerated, TrialsNoted))
    rows = to_table([*shared, *read_envelopes(root, stream_id)])
    alone = Snapshot(store=Path(), segments=(), open_rows=rows, live_streams=snapshot.live_streams & {stream_id})
    with closing(connect(alone, only={*VIEWS, *ATIF_VIEWS})) as connection:
        choose_trials(connection)
        (chunk,) = timelines(connection, _PROMPT_CHARACTERS, Store(root))
        return {
            "columns": trial_list(connection),
            "parts": chunk[0],
            "prompts": prompts(connection, _PROMPT_CHARACTERS),
            "texts": request_texts(connection, _PROMPT_CHARACTERS),
            "atif": shown_documents(connection)[0],
        }


def attempt_page(root: Path, stream_id: str) -> str:
    """Return one attempt as a self-contained page."""
    data = packed(attempt_data(root, stream_id))
    return _rendered("trial", f"Attempt {stream_id}", ATTEMPT_STYLES, ATTEMPT_SCRIPTS, data=data)


def _rendered(template: str, title: str, styles: Sequence[str], scripts: Sequence[str], **values: object) -> str:
    """Render a page that carries its style and script, and whose policy forbids everything else."""
    style, script = joined(styles), joined(scripts)
    return render(
        f"page/{template}.html",
        title=title,
        policy=Markup(policy(style=style, script=script)),  # noqa: S704 - names and digests of ours
        style=Markup(style),  # noqa: S704 - a file of ours
        script=Markup(script),  # noqa: S704 - a file of ours
        labels=LABELS,
        **values,
    )


def _contents(connection: "duckdb.DuckDBPyConnection") -> str:
    """Say which agents, tasks and days the report is about."""
    ((agents, *counts, first, last),) = connection.execute(
        """
        select list_sort(list(distinct agent || coalesce(' (' || nullif(model, agent) || ')', ''))),
            count(distinct (benchmark, task_id)), count(distinct variant_id), count(*),
            strftime(make_timestamp(min(started_at_us)), '%-d %B %Y'),
            strftime(make_timestamp(max(started_at_us)), '%-d %B %Y')
        from trials
        where getvariable('experiment') is null or experiment_id = getvariable('experiment')
        """
    ).fetchall()
    if not agents:
        return "The store has no trials."
    parts = [f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in zip(counts, _COUNTED, strict=True)]
    days = [] if first is None else [first] if first == last else [f"{first} to {last}"]
    more = [f"{len(agents) - _MOST_AGENTS} more"] if len(agents) > _MOST_AGENTS else []
    return f"{', '.join([*agents[:_MOST_AGENTS], *more])}: {', '.join([*parts, *days])}."


def _groups(computed: Mapping[str, Table]) -> list[tuple[str, list[Table], list[Table]]]:
    """Return the groups of tables with their titles: tables with rows, then tables without."""
    chosen = [(title, [computed[name] for name in names if name in computed]) for title, names in GROUPS.items()]
    return [(title, [one for one in each if one.rows], [one for one in each if not one.rows]) for title, each in chosen]


def _cell(said: Finding, computed: Mapping[str, Table]) -> str:
    """Return the name that the page gives to the row of a finding, empty if it rests on no single row."""
    rows = computed[said.table].rows if said.keys else ()
    found = [row for row in rows if all(str(row[key]) == it for key, it in said.keys.items())]
    if len(found) != 1:
        return ""
    return json.dumps([said.table, *(found[0][key] for key in computed[said.table].keys)], ensure_ascii=False)


def _interval(said: Finding, computed: Mapping[str, Table]) -> tuple[float, float, float] | None:
    """Return (low, value, high) of a difference, in per cent of an axis from -1 to 1; None for other findings."""
    known = measure_of(said.keys.get("measure", ""))
    if (known.unit, known.scale) != ("pp", 100):
        return None
    rows = computed[said.table].rows
    (row,) = (each for each in rows if all(str(each[key]) == it for key, it in said.keys.items()))
    if row["low"] is None:
        return None
    low, value, high = (50 * (1 + row[name]) for name in ("low", "value", "high"))
    return low, value, high


def _measures(computed: Mapping[str, Table], k: object) -> dict[str, tuple[str, str, int | None]]:
    """Return label and meaning of every measure of the tables and, for shares, the whole (1 or 100)."""
    names = {str(row["measure"]) for each in computed.values() for row in each.rows if "measure" in row}
    shares = {name: 100 // each.scale for name in names if (each := measure_of(name)).unit == "%"}
    return {
        name: (label_with_unit(name, k), measure_meanings().get(name, ""), shares.get(name)) for name in sorted(names)
    }


def _encoded(each: Table) -> dict[str, object]:
    rows = ([row[name] for name in each.columns] for row in each.rows)
    return {
        "name": each.name,
        "keys": each.keys,
        "columns": each.columns,
        "labels": [column_label(name) for name in each.columns],
        "meanings": [column_meanings(each.name).get(name, "") for name in each.columns],
        "reading": each.reading,
        "shown": each.shown,
        "count": len(each.rows),
        "rows": columnar(each.columns, msgspec.to_builtins(list(rows))),
        "texts": columnar(_ESTIMATE, (_texts(row) for row in each.rows)) if "measure" in each.columns else {},
    }


def _texts(row: Mapping[str, Any]) -> list[str | None]:
    """Format an estimate and its bounds in the unit of the measure."""
    values = (row.get(name) for name in _ESTIMATE)
    return [None if value is None else number_in_unit(str(row["measure"]), value) for value in values]


def policy(*, style: str, script: str) -> str:
    """Return the content security policy of the page: only our own script and style sheet, and no requests.

    Style attributes are allowed because the figures contain some.
    """
    rules = (
        "default-src 'none'",
        f"script-src '{_hash(script)}'",
        f"style-src-elem '{_hash(style)}'",
        "style-src-attr 'unsafe-inline'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return "; ".join(rules)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_DROPPED = (f"{_SVG}metadata", f"{_SVG}style")
_COLOURS = {
    INK: "var(--ink)",
    QUIET: "var(--quiet)",
    LINE: "var(--line)",
    PAPER: "var(--paper)",
    **{colour: f"var(--series-{place})" for place, colour in enumerate(SERIES)},
}


class Graphic(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the report. ``reads`` names its views; ``picture`` is inline SVG.

    If there is no picture, ``reason`` says why.
    """

    name: str
    title: str
    source: str
    reads: tuple[str, ...]
    picture: Markup | None
    reason: str = ""


def graphics(connection: "duckdb.DuckDBPyConnection") -> list[Graphic]:
    """Draw every figure that has data as inline SVG."""
    return [_graphic(connection, name) for name in FIGURES]


def _graphic(connection: "duckdb.DuckDBPyConnection", name: str) -> Graphic:
    spec = spec_of(name)
    graphic = Graphic(name=name, title=spec.title, source=spec.source, reads=spec.reads, picture=None)
    try:
        drawn = paint(connection, name)
    except NothingToDraw as reason:
        return msgspec.structs.replace(graphic, reason=str(reason))
    return msgspec.structs.replace(graphic, picture=inline(to_bytes(drawn, "svg"), name, spec.title))


def inline(svg: bytes, name: str, title: str) -> Markup:
    """Adapt an SVG picture to the page: add a screen reader label, use the page's colours, and make ids unique.

    ``--width`` is its width in points. The style sheet scales all pictures by one factor, so that text has one size.
    """
    ET.register_namespace("", _SVG.strip("{}"))
    root = ET.fromstring(svg)  # noqa: S314 - our own output
    used = set(re.findall(rb"#(m?[0-9a-zA-Z_.-]+)", svg))
    for parent in root.iter():
        for child in [child for child in parent if child.tag in _DROPPED]:
            parent.remove(child)
        _adapt(parent, name, used)
    width = float(root.attrib["width"].removesuffix("pt"))
    root.attrib |= {"role": "img", "aria-label": title, "stroke-linejoin": "round"}
    root.attrib["style"] = f"--width: {width:.0f}pt"
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704 - serialised XML


def _adapt(part: ET.Element, name: str, used: set[bytes]) -> None:
    identity = part.attrib.pop("id", None)
    if identity is not None and identity.encode() in used:
        part.set("id", f"{name}-{identity}")
    if _LINK in part.attrib:
        part.set("href", f"#{name}-{part.attrib.pop(_LINK)[1:]}")  # the prefixed name means nothing in HTML
    if "clip-path" in part.attrib:
        part.set("clip-path", part.attrib["clip-path"].replace("#", f"#{name}-"))
    if "style" in part.attrib:
        part.set("style", re.sub(r"#[0-9a-f]{6}", lambda found: _COLOURS.get(found[0], found[0]), part.attrib["style"]))
