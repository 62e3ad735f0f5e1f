"""The formats that can be imported, each with a parser from files to trials, and how to recognise their files."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from lhaw_record.runners.base.text.fields import listed
from lhaw_record.runners.imports.foreign_trial import (
    REFUSED,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    read_each,
)
from lhaw_record.runners.imports.source_files import decode_json_or_lines

ENTRY_POINTS = "lhaw_record.formats"
"""The entry point group in which installed packages register their own formats. See docs/imports.md."""

Parse = Callable[[SourceFile, Options, KnownRecords], ParsedFile]


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One format: its name on the command line, its parser's module, and the patterns of the files it reads.

    ``function`` is the parser in its module. ``is_joint`` says that its files refer to each other, so the module's
    ``parse_all`` reads them together. ``installed`` is the parser of an installed package's format, without a module.
    """

    name: str
    module: str
    patterns: tuple[str, ...]
    function: str = "parse"
    is_joint: bool = False
    installed: Parse | None = None

    def parse(self, sources: Sequence[SourceFile], options: Options, known: KnownRecords) -> list[ParsedFile]:
        """Return the content of each file, importing the format's module only now.

        Raises:
            ImportFailed: Every file is refused, or what they say together is.
        """
        given = {source.label: source for source in sources}
        found: dict[str, ParsedFile] = {}
        if self.installed is not None:
            parse: Any = partial(self._parsed, self.installed)
        else:
            module = importlib.import_module(f"lhaw_record.runners.imports.formats.{self.module}")
            parse = getattr(module, "parse_all" if self.is_joint else self.function)
        if self.is_joint:
            found = parse(given, options, known)
        else:
            found |= read_each(given, lambda source: parse(source, options, known), found)
        refused = [each.reason for part in found.values() for each in part.skipped if each.kind == REFUSED]
        if len(refused) == len(sources):
            raise ImportFailed(listed(refused, most=3))
        return [found.get(label, ParsedFile()) for label in given]

    def _parsed(self, parse: Parse, source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
        try:
            found = parse(source, options, known)
        except ImportFailed:
            raise
        except Exception as error:
            raise ImportFailed(
                f"{source.label}: format {self.name} ({self.module}) failed: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(found, ParsedFile):
            raise ImportFailed(f"format {self.name} ({self.module}) returned no ParsedFile (docs/imports.md)")
        return found


FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format(name="results", module="results", patterns=("*.csv",)),
        Format(
            name="ambig-swe",
            module="ambig_swe",
            patterns=("fully-specified.csv", "underspecified.csv", "interaction.csv", "*_qa_pairs.json"),
            is_joint=True,
        ),
        Format(name="lhaw-dataset", module="lhaw_dataset", patterns=("*.json", "*.jsonl")),
        Format(name="ask-early-trials", module="ask_early_trials", patterns=("*.json", "*.jsonl")),
        Format(name="tac-evals", module="tac_evals", patterns=("eval_*.json",)),
        Format(name="swebench-pro-results", module="swebench_pro_results", patterns=("eval_results.json",)),
        Format(name="mcp-atlas-scores", module="mcp_atlas_scores", patterns=("scored_*.csv",)),
        Format(name="mcp-atlas-references", module="mcp_atlas_references", patterns=("*.csv",)),
        Format(name="inspect-eval", module="inspect_eval", patterns=("*.eval",)),
        Format(
            name="harbor-job",
            module="harbor_job",
            patterns=("result.json", "agent/trajectory*.json"),
            is_joint=True,
        ),
        Format(name="atif", module="atif", patterns=("*trajectory*.json",), is_joint=True),
        Format(name="openhands", module="openhands", patterns=("*.json", "*.jsonl"), is_joint=True),
        Format(name="mini-swe-agent", module="mini_swe_agent", patterns=("*.traj.json", "*trajectory.json", "*.traj")),
        Format(name="swe-agent", module="mini_swe_agent", function="parse_swe_agent", patterns=("*.traj",)),
        Format(name="tau-bench", module="openai_messages", function="parse_tau_bench", patterns=("*.json",)),
        Format(name="claude-code", module="claude_code", patterns=("*.jsonl",), is_joint=True),
        Format(name="codex", module="codex", patterns=("*.jsonl",)),
        Format(name="openai-messages", module="openai_messages", patterns=("*.json", "*.jsonl")),
    )
}


def installed_format(name: str) -> Format:
    """Return a format from an installed package."""
    from importlib.metadata import entry_points

    points = {point.value: point for point in entry_points(group=ENTRY_POINTS, name=name)}
    if not points:
        there = ", ".join(sorted({point.name for point in entry_points(group=ENTRY_POINTS)})) or "none"
        raise ImportFailed(f"no installed package has the format {name!r} (there are: {there}); see docs/imports.md")
    if len(points) > 1:
        raise ImportFailed(f"several packages have the format {name!r}: {', '.join(sorted(points))}")
    ((value, point),) = points.items()
    try:
        parse = point.load()
    except Exception as error:
        raise ImportFailed(f"format {name} ({value}) cannot be loaded: {type(error).__name__}: {error}") from error
    return Format(name=name, module=value, patterns=tuple(getattr(parse, "patterns", ("*",))), installed=parse)


def looks_like(source: SourceFile) -> str | None:
    """Return the name of the format that a file looks like, or None."""
    if source.content.startswith(b"PK\x03\x04"):
        return "inspect-eval"
    if source.name.endswith(".csv"):
        return "mcp-atlas-scores" if b"coverage_score" in source.content[:10_000] else None
    try:
        rows = decode_json_or_lines(source)
    except ImportFailed:
        return None
    first = rows[0] if len(rows) == 1 else None
    return (_of_object(first) if isinstance(first, dict) else None) or _of_list(rows)


def _of_object(value: Mapping[str, Any]) -> str | None:
    given = value.keys()
    if str(value.get("schema_version", "")).startswith("ATIF") or {"agent", "steps"} <= given:
        return "atif"
    if "task_name" in given and "verifier_result" in given:
        return "harbor-job"
    if str(value.get("trajectory_format", "")).startswith("mini-swe-agent") or {"info", "messages"} <= given:
        return "mini-swe-agent"
    if isinstance(value.get("history"), list) and given & {"trajectory", "replay_config"}:
        return "swe-agent"
    if "simulations" in given:
        return "tau-bench"
    if {"eval", "samples"} <= given:
        return "inspect-eval"
    if "messages" in given:
        return "openai-messages"
    if given & {"checkpoints", "final_score"}:
        return "tac-evals"
    if value and all(isinstance(each, bool) for each in value.values()):
        return "swebench-pro-results"
    return _of_row(value)


def _of_list(value: list[Any]) -> str | None:
    rows = [each for each in value if isinstance(each, dict)]
    if not rows or len(rows) < len(value):
        return None
    if any(is_event(each) or "history" in each for each in rows):
        return "openhands"
    if all({"traj", "reward", "task_id"} <= each.keys() for each in rows):
        return "tau-bench"
    if all("role" in each for each in rows):
        return "openai-messages"
    return _of_row(rows[0])


def is_event(row: Mapping[str, Any]) -> bool:
    """Return whether an object is an event of OpenHands, of its first program or of its SDK."""
    is_first = isinstance(row.get("action"), str) and "args" in row
    return is_first or (isinstance(row.get("kind"), str) and "source" in row)


def _of_row(row: Mapping[str, Any]) -> str | None:
    if {"variant_id", "task_success"} <= row.keys():
        return "ask-early-trials"
    return "lhaw-dataset" if {"variant_id", "ambiguity_class"} <= row.keys() else None
