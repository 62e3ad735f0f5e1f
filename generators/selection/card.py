"""Writes the card of a selected benchmark: Markdown with a YAML header, as dataset hubs expect it.

The text is the Jinja template ``data/selection/card.md``. The card depends only on the store, so the same selection
always gives the same card.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, select_autoescape

from lhaw_record.generators.gate import UNJUDGED, unjudged_by
from lhaw_record.generators.gate.calibration import rates_on
from lhaw_record.generators.gate.decision import findings_against, why_unjudged
from lhaw_record.generators.selection.eligibility import REASONS
from lhaw_record.generators.selection.provenance import BY_HAND, ChosenVariant, Provenance
from lhaw_record.generators.selection.quotas import CLASSES
from lhaw_record.generators.selection.selection import SelectionRequest
from lhaw_record.recorder.events.values import DIMENSIONS
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.text.language import language_name, language_of

_HUB_LICENCES = frozenset(
    {"mit", "apache-2.0", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0"}
    | {"gpl-2.0", "gpl-3.0", "lgpl-3.0", "mpl-2.0", "odc-by", "unlicense"}
)
"""The licence names that dataset hubs know. The card calls any other licence ``other``."""
_WIDTH = 120
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"))
_BLOCK = re.compile(r"^\S.*?(?=\n- |\n\n|\n?\Z)", re.MULTILINE | re.DOTALL)
"""A paragraph or a list item."""


class CardFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files beside the card.

    ``rows`` is the number of rows in the dataset. ``figures`` maps image formats to file names.
    """

    dataset: str
    dataset_sha256: str
    rows: int
    figures: Mapping[str, str]


def card(found: Provenance, files: CardFiles) -> str:
    """Return the text of the card."""
    return _template().render(
        found=found,
        event=found.event,
        chosen=found.chosen,
        files=files,
        hub_licence=_hub_licence(found),
        size=next((name for limit, name in _SIZES if len(found.chosen) < limit), "n>100K"),
        classes=list(CLASSES),
        quotas=[
            (each.ambiguity_class, each.wanted, each.chosen, max(0, each.wanted - each.chosen))
            for each in found.event.quotas
        ],
        groups={
            "dimension": _by_class(found.chosen, _dimensions, order=DIMENSIONS.index),
            "severity": _by_class(found.chosen, lambda each: {each.variant.severity or "unknown"}),
            "segments removed": _by_class(found.chosen, lambda each: {str(len(each.variant.segments))}),
            "task": _by_class(found.chosen, lambda each: {each.variant.task_id}),
        },
        gate=gate_results(found.chosen),
        kept=rates_on("unseen"),
        unjudged=UNJUDGED,
        languages=Counter(language_name(language_of(each.variant.prompt)) for each in found.chosen),
        reasons=REASONS,
        licences=sorted(Counter(task.licence or "" for task in found.tasks.values()).items()),
        options=_options(found.request) if found.request else "",
    )


def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(data_path()),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "code": _code,
        "counted": lambda count, noun: f"{count} {noun}" if count == 1 else f"{count} {noun}s",
        "plain": _plain,
        "quoted": _quoted,
        "shell": shlex.quote,
        "tally": lambda counts: ", ".join(f"{_code(name)}: {count}" for name, count in counts.items()),
        "wrapped": _wrapped,
    }
    return environment.get_template("selection/card.md")


def _dimensions(each: ChosenVariant) -> set[str]:
    return {segment.dimension for segment in each.variant.segments}


def _by_class(
    chosen: Iterable[ChosenVariant],
    groups_of: Callable[[ChosenVariant], set[str]],
    *,
    order: Callable[[str], Any] | None = None,
) -> list[tuple[object, ...]]:
    """Return a row for each group: its name, the number of its variants in each class, and in all."""
    counts = Counter((name, each.ambiguity_class) for each in chosen for name in groups_of(each))
    rows = []
    for group in sorted({name for name, _ in counts}, key=order):
        in_classes = [counts[group, name] for name in CLASSES]
        rows.append((group, *in_classes, sum(in_classes)))
    return rows


def _options(request: SelectionRequest) -> str:
    """Return the command-line options that repeat a request."""
    quota = "/".join(str(request.percents[name]) for name in CLASSES)
    options = {
        "benchmark": request.benchmark,
        "name": request.name,
        "quota": quota,
        "max": request.max_variants,
        "seed": request.seed,
        "classifier": request.classifier,
        "classifier-experiment": request.classifier_experiment,
        "from": request.experiment,
        "reviewed": request.reviewers or None,
    }
    return " ".join(f"--{name} {shlex.quote(str(value))}" for name, value in options.items() if value is not None)


def _wrapped(text: str) -> str:
    """Fill each paragraph and list item of a text."""
    return _BLOCK.sub(_filled, text)


def _filled(block: re.Match[str]) -> str:
    text = " ".join(block[0].split())
    indent = "  " if text.startswith("- ") else ""
    return fill(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _plain(text: object) -> str:
    """Escape Markdown characters in a text and collapse its whitespace."""
    return re.sub(r"([\\`*_|<>\[\]#])", r"\\\1", " ".join(str(text).split()))


def _code(text: str) -> str:
    return "`" + " ".join(text.replace("`", "'").split()) + "`"


def _quoted(text: str) -> str:
    """Quote a text as a string that is valid in both YAML and TOML."""
    return json.dumps(text, ensure_ascii=False)


def _hub_licence(found: Provenance) -> str:
    names = sorted({(task.licence or "unknown").lower() for task in found.tasks.values()} or {"unknown"})
    known = [name if name in _HUB_LICENCES | {"unknown"} else "other" for name in names]
    unique = list(dict.fromkeys(known))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


class GateResults(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate says about the variants of a selection.

    Attributes:
        passed: How many it finds nothing against.
        failed: How many it finds something against.
        findings: The number of these variants by finding, most frequent first.
        unjudged: How many the rules cannot judge, by reason.
        judged_by: How many a model judged, by its name.
        left: How many nobody judged on each point that no rule can judge.
    """

    passed: int
    failed: int
    findings: Mapping[str, int]
    unjudged: Mapping[str, int]
    judged_by: Mapping[str, int]
    left: Mapping[str, int]


def gate_results(chosen: Sequence[ChosenVariant]) -> GateResults:
    """Return what the gate says about each variant. It does not see the environment's files, which no store has."""
    passed, failed = 0, 0
    variants = [each.variant for each in chosen]
    findings: Counter[str] = Counter()
    unjudged: Counter[str] = Counter()
    for each in chosen:
        reason = _why_unjudged(each)
        problems = () if reason else findings_against(each.variant, each.original or "", variants)
        found = {problem.check for problem in problems}
        reason = reason or why_unjudged(problems, is_written=each.maker == BY_HAND)
        if reason:
            unjudged[reason] += 1
        elif found:
            failed += 1
            findings.update(found)
        else:
            passed += 1
    return GateResults(
        passed=passed,
        failed=failed,
        findings=dict(sorted(findings.items(), key=lambda item: (-item[1], item[0]))),
        unjudged=dict(sorted(unjudged.items())),
        judged_by=dict(sorted(Counter(each.judgement.judge for each in chosen if each.judgement).items())),
        left=dict(Counter(point for each in chosen for point in _points_left(each))),
    )


def _points_left(each: ChosenVariant) -> tuple[str, ...]:
    is_changed = bool(each.variant.segments) and each.variant.environment_change is None
    return unjudged_by(each.judgement, each.variant.severity, each.variant.prompt) if is_changed else ()


def _why_unjudged(each: ChosenVariant) -> str:
    if each.variant.environment_change is not None or not each.variant.segments:
        return "no segment is removed from the prompt"
    return "" if each.original else "the store does not have the original prompt"
