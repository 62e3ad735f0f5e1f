"""Format ``ambig-swe``: the published files of Ambig-SWE, a paired study of clarification on SWE-bench.

A file for each arm says for each instance whether each model resolved it; files of question and answer pairs tell what
the models asked in the arm with interaction. There are no actions, checkpoints or segments. Source: the repository
sani903/InteractiveSWEAgents, ``data`` and ``experiments/extracted_qa_pairs``; docs/imports.md has the commit.
"""

from collections.abc import Mapping, Sequence

from lhaw_record.recorder.events import AnyEvent, QuestionAnswered, QuestionAsked, Skipped
from lhaw_record.runners.base.text.fields import as_bool, as_list, as_object, as_text, listed
from lhaw_record.runners.imports.foreign_trial import (
    MISFORMED,
    UNKNOWN,
    Finish,
    ForeignTrial,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    imported_task,
    imported_variant,
    reason_of,
)
from lhaw_record.runners.imports.source_files import csv_rows, decode_json

BENCHMARK = "ambig_swe"
GRADER = "ambig_swe/resolved"
_ARMS = {"fully-specified": "full", "underspecified": "underspecified", "interaction": "ask_user"}
_PAIRS = "_qa_pairs.json"
_INSTANCE, _STATEMENT = "instance_id", "problem_statement"

Rows = Mapping[str, Mapping[str, str]]
"""The rows of an arm by instance."""
Pairs = Mapping[str, Sequence[tuple[str, str]]]
"""Questions with their answers by instance."""


def parse_all(sources: Mapping[str, SourceFile], options: Options, known: KnownRecords) -> dict[str, ParsedFile]:
    """Return a trial for each arm, instance and model, over the instances that every arm has."""
    del known
    if options.agent:
        raise ImportFailed("the models of Ambig-SWE are the agents; leave out --agent")
    files: dict[str, SourceFile] = {}
    for source in sources.values():
        if (arm := _ARMS.get(source.name.removesuffix(".csv"))) is None:
            if not source.name.endswith(_PAIRS):
                raise ImportFailed(f"{source.label} is not a file of Ambig-SWE; name the folder with data/*.csv")
        elif files.setdefault(arm, source) is not source:
            raise ImportFailed(f"{files[arm].label} and {source.label} are both the arm {arm}; leave one out")
    if missing := [name for name, arm in _ARMS.items() if arm not in files]:
        raise ImportFailed(f"{listed(f'{name}.csv' for name in missing)} is not there; get the whole folder data again")
    arms = {arm: _arm(source) for arm, source in files.items()}
    models = _models(files, arms)
    common = set.intersection(*(set(rows) for rows in arms.values()))
    pairs = {label: _pairs(source) for label, source in sources.items() if source.name.endswith(_PAIRS)}
    asked = {_model(label, models): found for label, found in pairs.items()}
    prompts = {instance: row[_STATEMENT] for instance, row in arms["underspecified"].items()}
    parsed = {}
    for label, source in sources.items():
        if source.name.endswith(_PAIRS):
            parsed[label] = _understood(_model(label, models), pairs[label], common)
            continue
        arm = _ARMS[source.name.removesuffix(".csv")]
        rows = {instance: row for instance, row in arms[arm].items() if instance in common}
        trials = [
            _trial(f"{label}, {instance}", instance, arm, model, row[model], prompts[instance], asked)
            for instance, row in rows.items()
            for model in models
        ]
        rest = len(arms[arm]) - len(rows)
        skipped = [Skipped(kind="instances", count=rest, reason="not in every arm")] if rest else []
        parsed[label] = ParsedFile(trials=tuple(trials), skipped=tuple(skipped), remarks=_remarks(arm, arms, common))
    return parsed


def _arm(source: SourceFile) -> Rows:
    rows, columns = csv_rows(source, str)
    for column in (_INSTANCE, _STATEMENT):
        if column not in columns:
            raise ImportFailed(f"{source.label} has no column {column}, but {listed(columns)}; is it another version?")
    found: dict[str, Mapping[str, str]] = {}
    for number, row in enumerate(rows, 1):
        if found.setdefault(row[_INSTANCE], row) is not row:
            raise ImportFailed(f"{source.label}, row {number}: {row[_INSTANCE]} occurs again; leave one out")
    return found


def _models(files: Mapping[str, SourceFile], arms: Mapping[str, Rows]) -> list[str]:
    """Return the models, which are the other columns, the same in every arm."""
    columns = {
        arm: [key for key in next(iter(rows.values()), ()) if key not in (_INSTANCE, _STATEMENT)]
        for arm, rows in arms.items()
    }
    first = columns["full"]
    for arm, names in columns.items():
        if set(names) != set(first) or not names:
            raise ImportFailed(
                f"{files[arm].label} has the models {listed(names)}, {files['full'].label} {listed(first)}; the arms "
                "of a paired study have the same models"
            )
    return first


def _pairs(source: SourceFile) -> Pairs:
    found: dict[str, Sequence[tuple[str, str]]] = {}
    for number, entry in enumerate(decode_json(source), 1):
        try:
            given = as_object(entry, "an entry")
            said = [as_list(each, "a pair") for each in as_list(given["qa_pairs"], "qa_pairs")]
            pairs = [(as_text(question, "a question"), str(answer)) for question, answer in said]
            if found.setdefault(as_text(given[_INSTANCE], _INSTANCE), pairs) is not pairs:
                raise ValueError(f"{given[_INSTANCE]} again")
        except MISFORMED as error:
            raise ImportFailed(f"{source.label}, entry {number}: {reason_of(error)}") from error
    return found


def _model(label: str, models: Sequence[str]) -> str:
    """Return the model that a file of pairs is about: the one whose name has every part of the file's."""
    parts = label.rpartition("/")[2].removesuffix(_PAIRS).split("_")
    found = [model for model in models if all(part in model for part in parts)]
    if len(found) != 1:
        raise ImportFailed(f"{label}: its name fits {listed(found)} of the models {listed(models)}; rename it")
    return found[0]


def _understood(model: str, pairs: Pairs, common: set[str]) -> ParsedFile:
    count = sum(len(pairs[instance]) for instance in pairs if instance in common)
    strangers = sum(instance not in common for instance in pairs)
    lacking = len(common - pairs.keys())
    return ParsedFile(
        skipped=(Skipped(kind="instances", count=strangers, reason="not in every arm"),) if strangers else (),
        remarks=(
            f"{count} question and answer pairs of {model}",
            *((f"{lacking} instances are not in it: whether {model} asked there is unknown",) if lacking else ()),
        ),
    )


def _remarks(arm: str, arms: Mapping[str, Rows], common: set[str]) -> tuple[str, ...]:
    """Return what a reader of the file has to know: the full statement is not in the file that is named after it."""
    if arm != "full":
        return ()
    same = sum(arms["full"][each][_STATEMENT] == arms["underspecified"][each][_STATEMENT] for each in common)
    return (f"the full prompts are unknown: in {same} of {len(common)} instances it repeats the underspecified one",)


def _trial(
    location: str,
    instance: str,
    arm: str,
    model: str,
    resolved: str,
    prompt: str,
    asked: Mapping[str, Pairs],
) -> ForeignTrial:
    pairs = asked.get(model, {}).get(instance) if arm == "ask_user" else None
    try:
        is_success = as_bool(resolved, model)
    except ValueError as error:
        raise ImportFailed(f"{location}: {error}") from error
    variant = imported_variant(BENCHMARK, instance, f"{instance}/underspecified", prompt)
    return ForeignTrial(
        location=location,
        task=imported_task(BENCHMARK, instance, domain=instance.partition("__")[0]),
        variant=None if arm == "full" else variant,
        condition=arm,
        agent=model,
        model=model,
        grader=GRADER,
        trial_index=0,
        user_simulator=UNKNOWN if arm == "ask_user" else None,
        questions=tuple(event for number, pair in enumerate(pairs or (), 1) for event in _exchange(number, *pair)),
        stated_questions=len(pairs) if pairs is not None else None,
        end=Finish(is_success=is_success, results=()),
    )


def _exchange(number: int, question: str, answer: str) -> tuple[AnyEvent, ...]:
    """Return a question and its answer. The agent asked by ending its turn."""
    asked = QuestionAsked(question_id=f"q{number}", question=question, medium="prose")
    return asked, QuestionAnswered(
        question_id=f"q{number}", answer=answer or None, simulator=UNKNOWN, latency_ms=None, revealed=None
    )
