"""Judge whether the trials of a variant solved another task: the one that the underspecified prompt describes.

Source: LHAW, definition 3.1 and appendix D.4. The judge is asked only if no trial succeeded and all trials ended in the
same terminal state.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from lhaw_record.recorder.events import ArtifactStored, NewTaskJudged
from lhaw_record.recorder.events.canonical_json import short_digest
from lhaw_record.recorder.events.values import Task
from lhaw_record.runners.base.errors import UnusableReply
from lhaw_record.runners.judging.judge_run import LAYOUT, Subject, plain_words
from lhaw_record.runners.judging.stored_trials import StoredTrial, StoredTrials, StreamReader
from lhaw_record.runners.models.llm_jobs.json_replies import json_object
from lhaw_record.runners.models.llm_jobs.prompt_template import PromptTemplate, cut
from lhaw_record.runners.models.reply_forms import ReplyForm, object_schema

_ANSWER_CHARACTERS = 8_000
_FILE_CHARACTERS = 6_000
_TEXT_ENDINGS = (
    ".csv",
    ".html",
    ".ics",
    ".json",
    ".md",
    ".py",
    ".sql",
    ".toml",
    ".tsv",
    ".txt",
    ".xml",
    ".yaml",
    ".yml",
)


NEW_TASK_FORM = ReplyForm(
    "new_task",
    object_schema(
        {
            "same_answer": {"type": "boolean"},
            "completes_task": {"type": "boolean"},
            "reason": {"type": "string"},
        }
    ),
)
"""The form of a reply about a new task."""


class NewTaskVerdict(msgspec.Struct, frozen=True):
    """A judge's verdict about the trials of a variant."""

    same_answer: bool
    completes_task: bool
    reason: str

    @property
    def verdict(self) -> Literal["confirmed", "rejected"]:
        """``confirmed`` only if every trial gave the same answer and that answer completes the underspecified task."""
        return "confirmed" if self.same_answer and self.completes_task else "rejected"


def read_new_task(reply: str) -> NewTaskVerdict:
    try:
        return msgspec.convert(json_object(reply, "same_answer"), NewTaskVerdict)
    except msgspec.ValidationError as error:
        raise UnusableReply(plain_words(error)) from error


class NewTasks:
    """The judge of new tasks.

    Args:
        judge: The judge's name in the events, which is its model's name.
        parameters: Generation parameters. Different parameters count as a different judge.
        load: Returns the bytes of an artifact by its SHA-256. Raises FileNotFoundError.
        path: A custom prompt instead of ``data/judges/new_task.md``.
        roles: Only trials of agents of these roles.
    """

    kind = "new-task"
    read = staticmethod(read_new_task)
    form = NEW_TASK_FORM

    def __init__(
        self,
        judge: str,
        parameters: Mapping[str, Any],
        load: Callable[[str], bytes],
        path: Path | None = None,
        roles: Sequence[str] = ("evaluated", "classifier"),
    ) -> None:
        self.template = PromptTemplate(("judges", "new_task.md"), path, ("sent_prompt", "answers"))
        self.prompt_digest = short_digest([self.template.source, dict(parameters), LAYOUT])
        self._judge = judge
        self._load = load
        self._roles = roles

    def subjects(self, stored: StoredTrials) -> Sequence[Subject]:
        """Return the groups of ``underspecified`` trials to judge, one per variant, agent and role.

        A group qualifies if all planned trials are there, no trial succeeded (c = 0) and all ended alike (|S| = 1).
        """
        cells: dict[tuple[str | None, ...], list[StoredTrial]] = defaultdict(list)
        for trial in stored.trials:
            started = trial.started
            is_wanted = started.condition == "underspecified" and started.role in self._roles
            if is_wanted and started.variant_digest in stored.variants:
                key = (started.variant_digest, started.agent, started.agent_digest, started.role)
                cells[key].append(trial)
        return [
            Subject(
                trials=tuple(trials),
                is_judged=(_streams(trials), self._judge, self.prompt_digest) in stored.judged_new_tasks,
            )
            for trials in cells.values()
            if _is_candidate(trials, stored)
        ]

    def question(self, subject: Subject, stored: StoredTrials, reader: StreamReader) -> str:
        answers = [self._handed_in(trial, reader) for trial in subject.trials]
        numbered = [f"Attempt {number}:\n{answer}" for number, answer in enumerate(answers, 1)]
        variant = stored.variants[subject.last.started.variant_digest or ""]
        return self.template.user({"sent_prompt": variant.prompt, "answers": "\n\n".join(numbered)})

    def event(self, subject: Subject, verdict: NewTaskVerdict) -> NewTaskJudged:
        return NewTaskJudged(
            variant_digest=subject.last.started.variant_digest or "",
            judged_stream_ids=tuple(sorted(_streams(subject.trials))),
            verdict=verdict.verdict,
            reason=verdict.reason,
            judge=self._judge,
            prompt_digest=self.prompt_digest,
        )

    def _handed_in(self, trial: StoredTrial, reader: StreamReader) -> str:
        stored = [event for event in reader.read(trial.stream_id) if isinstance(event, ArtifactStored)]
        files = [event for event in stored if event.role != "environment"]  # not the agent's work
        return "\n\n".join([_final_answer(trial), *map(self._file, files)])

    def _file(self, artifact: ArtifactStored) -> str:
        head = f"file {artifact.name} ({artifact.size_bytes} bytes)"
        if not artifact.media_type.startswith("text/") and not artifact.name.lower().endswith(_TEXT_ENDINGS):
            return f"{head}: not text, SHA-256 {artifact.sha256}"
        try:
            text = self._load(artifact.sha256).decode("utf-8", "replace")
        except FileNotFoundError:
            return f"{head}: its bytes are not in the store, SHA-256 {artifact.sha256}"
        return f"{head}:\n{cut(text, _FILE_CHARACTERS)}"


def _final_answer(trial: StoredTrial) -> str:
    answer = trial.finished.final_answer
    if answer is None:
        return "(the final answer is unknown)"
    return cut(answer, _ANSWER_CHARACTERS) or "(no final answer)"


def _streams(trials: Sequence[StoredTrial]) -> frozenset[str]:
    return frozenset(trial.stream_id for trial in trials)


def _is_candidate(trials: Sequence[StoredTrial], stored: StoredTrials) -> bool:
    planned = max(stored.planned.get(trial.experiment_id, 0) for trial in trials)
    states = {_terminal_state(trial, stored.tasks[trial.started.task_digest]) for trial in trials}
    has_success = any(trial.finished.is_success for trial in trials)
    return len(trials) >= planned and not has_success and len(states) == 1


def _terminal_state(trial: StoredTrial, task: Task) -> tuple[float, ...]:
    """Return the scores in the order of the checkpoints. A claim of mcp_atlas counts only with its full score."""
    scores = [trial.results[checkpoint.checkpoint_id].score for checkpoint in task.checkpoints]
    return tuple(float(score == 1.0) if task.benchmark == "mcp_atlas" else score for score in scores)
