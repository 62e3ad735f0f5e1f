"""One synthetic task: its prompt of four segments, its checkpoints, its variants, and the way it is usually solved."""

from random import Random
from typing import NamedTuple

from lhaw_record.recorder.events.canonical_json import canonical_json, digest
from lhaw_record.recorder.events.values import (
    DIMENSIONS,
    Checkpoint,
    ExpectedQuestions,
    Segment,
    Severity,
    Task,
    Variant,
)
from tests.synthetic.chance import seeded
from tests.synthetic.texts import Texts, passage

VERSION = "1"
_SUBJECTS = ("stock-count", "quarter-report", "expense-list", "rota", "returns", "price-list", "incident-review")
_SEVERITIES: tuple[Severity, ...] = ("delete", "vaguify", "genericize")
_SUBDIMENSIONS = {"goal": "deliverable", "constraint": "threshold", "input": "source_file", "context": "convention"}
_VAGUE = {
    "goal": "the usual summary",
    "constraint": "Leave out what does not matter",
    "input": "the right file",
    "context": "Follow our convention",
}
_GENERIC = {
    "goal": "a file",
    "constraint": "Apply the limit",
    "input": "a table in the work directory",
    "context": "Follow the house rules",
}
_EARLIEST_USE = {"goal": 0.7, "constraint": 0.45, "input": 0.1, "context": 0.3}
_GUESSES = (0.0, 0.5, 1.0)
_SCORES = (0.0, 0.5, 1.0)


class Step(NamedTuple):
    """One way to act: a tool with its arguments, and what it usually gives back; None is drawn anew each time."""

    name: str
    arguments_json: str
    result: str | None


class SyntheticVariant(NamedTuple):
    """A variant; ``guess_rate`` is how often an uninformed agent guesses what was removed."""

    variant: Variant
    digest: str
    guess_rate: float


class SyntheticTask(NamedTuple):
    """A task with everything that its trials share.

    ``first_use`` says for each segment after which share of the script it is needed, and ``needed_by`` which
    checkpoint it decides.
    """

    task: Task
    digest: str
    variants: tuple[SyntheticVariant, ...]
    script: tuple[Step, ...]
    detours: tuple[Step, ...]
    first_use: dict[str, float]
    needed_by: dict[str, int]


def make_task(benchmark: str, number: int, variants: int, seed: int, texts: Texts) -> SyntheticTask:
    """Return the task of a number; the same for the same seed.

    Args:
        benchmark: The name of its benchmark.
        number: Its place in the design, from 0.
        variants: How many variants it has, at least 1.
        seed: Of the store.
        texts: The pools of the seed.
    """
    chance = seeded(seed, number)
    subject = chance.choice(_SUBJECTS)
    checkpoint_count = chance.randint(3, 6)
    segments = tuple(
        _segment(chance, place, dimension, subject, checkpoint_count) for place, dimension in enumerate(DIMENSIONS, 1)
    )
    prompt = _prompt({each.dimension: each.text or "" for each in segments}, passage(chance, texts.prose, 4))
    checkpoint_ids = [f"c{place}" for place in range(1, checkpoint_count + 1)]
    task = Task(
        benchmark=benchmark,
        benchmark_version=VERSION,
        task_id=f"t{number:04d}-{subject}",
        prompt=prompt,
        checkpoints=tuple(
            Checkpoint(checkpoint_id=each, label=f"part {each[1:]} of the result", total=chance.choice((1, 1, 1, 2)))
            for each in checkpoint_ids
        ),
        environment_digest=digest([seed, number]),
        domain=chance.choice(("office", "operations", "finance")),
        licence="MIT",
    )
    return SyntheticTask(
        task=task,
        digest=task.task_digest,
        variants=tuple(_variant(chance, task, segments, place) for place in range(variants)),
        script=tuple(
            _step(chance, texts, place) for place in range(8 + (3 * number + 3) % 7)
        ),  # 11 on average, whatever the number of tasks
        detours=tuple(_step(chance, texts, place) for place in range(20, 50)),
        first_use={segment.segment_id: segment.first_use_pct or 0.0 for segment in segments},
        needed_by={segment.segment_id: place % checkpoint_count for place, segment in enumerate(segments)},
    )


def _segment(chance: Random, place: int, dimension: str, subject: str, checkpoint_count: int) -> Segment:
    value = {
        "goal": f"{subject}.{chance.choice(('csv', 'md', 'json'))}",
        "constraint": f"{chance.randint(2, 90) * 5} EUR",
        "input": f"{chance.choice(('ledger', 'export', 'inbox'))}_{chance.randint(1, 12):02d}.csv",
        "context": chance.choice(("amounts net of tax", "weeks begin on Sunday", "dates as DD.MM.YYYY")),
    }[dimension]
    text = {"goal": value, "constraint": f"Leave out amounts below {value}", "input": value, "context": f"Use {value}"}
    return Segment(
        segment_id=f"S{place}",
        value=value,
        dimension=dimension,
        subdimension=_SUBDIMENSIONS[dimension],
        text=text[dimension],
        criticality=chance.choice(_SCORES),
        guessability=chance.choice(_SCORES),
        is_used_in_trajectory=True,
        first_use_pct=round(_EARLIEST_USE[dimension] + 0.25 * chance.random(), 2),
        checkpoint_refs=(f"c{(place - 1) % checkpoint_count + 1}",),
    )


def _prompt(said: dict[str, str], story: str) -> str:
    sentences = [f"Please write {said['goal']} from {said['input']}", said["constraint"], said["context"]]
    return ". ".join(sentence for sentence in sentences if sentence) + f".\n\n{story}\n"


def _variant(chance: Random, task: Task, segments: tuple[Segment, ...], place: int) -> SyntheticVariant:
    """Remove one segment, or two, in one way; the first removed one goes round the dimensions."""
    others = [segment for segment in segments if segment is not segments[place % 4]]
    removed = (segments[place % 4], *([chance.choice(others)] if chance.random() < 0.5 else ()))
    severity = chance.choice(_SEVERITIES)
    instead = {"delete": {"goal": "it", "input": "the files"}, "vaguify": _VAGUE, "genericize": _GENERIC}[severity]
    said = {segment.dimension: segment.text or "" for segment in segments}
    said |= {segment.dimension: instead.get(segment.dimension, "") for segment in removed}
    variant = Variant(
        benchmark=task.benchmark,
        task_id=task.task_id,
        variant_id=f"{task.task_id}/v{place + 1}-{severity}",
        prompt=_prompt(said, task.prompt.partition("\n\n")[2].rstrip("\n")),
        segments=removed,
        origin="generated",
        severity=severity,
        expected_questions=tuple(
            ExpectedQuestions(segment_id=each.segment_id, questions=(f"Which {each.subdimension} do you want?",))
            for each in removed
        ),
        failure_mode=f"works with another {removed[0].subdimension}",
    )
    return SyntheticVariant(variant, variant.variant_digest, chance.choice(_GUESSES))


def _step(chance: Random, texts: Texts, place: int) -> Step:
    """One action of a task: reading gives the same every time, running something mostly does not."""
    name = chance.choice(("bash", "bash", "python", "read_file", "read_file", "write_file"))
    if name == "read_file":
        is_table = chance.random() < 0.6
        path = f"data/part_{place:02d}.{'csv' if is_table else 'md'}"
        text = passage(chance, texts.rows if is_table else texts.prose, 14)
        return Step(name, _json({"path": path}), ("id,day,site,item,count,amount\n" if is_table else "") + text)
    if name == "write_file":
        content = passage(chance, texts.rows, 8)
        return Step(name, _json({"content": content, "path": f"out/{place:02d}.csv"}), f"{len(content)} bytes written")
    if name == "python":
        code = f"rows = load('part_{place:02d}.csv')\ntotal = sum(row.amount for row in rows)\nprint(total)\n"
        return Step(name, _json({"code": code}), f"{chance.lognormvariate(7, 1):.2f}\n")
    command = chance.choice(("grep -c ERROR log/{}.txt", "tail -n 40 log/{}.txt", "sort data/part_{}.csv | uniq -c"))
    return Step(name, _json({"command": command.format(f"{place:02d}")}), None)


def _json(arguments: dict[str, str]) -> str:
    return canonical_json(arguments).decode()
