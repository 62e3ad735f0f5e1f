"""Judging whether the trials of a variant solved another task: the one that the prompt as given describes.

Source: LHAW, definition 3.1 and appendix D.4. Asked where no trial succeeded and all ended in one terminal state.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from recorder.canonical import short_digest
from recorder.events import ArtifactStored, NewTaskJudged
from recorder.values import Task
from runners.judging.protocol import Subject
from runners.judging.stored import Stored, StoredTrial
from runners.judging.streams import StreamReader
from runners.judging.transcript import LAYOUT
from runners.judging.verdicts import NewTaskVerdict, read_new_task
from runners.prompt_template import PromptTemplate
from runners.shortening import cut

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


class NewTasks:
    """The judge of new tasks.

    Args:
        judge: How the judge is called in the events: its model's name.
        parameters: Generation parameters; another choice is another judge's opinion.
        load: Gives the bytes of an artifact by its SHA-256; raises FileNotFoundError.
        path: A prompt of one's own in place of ``data/judges/new_task.md``.
    """

    kind = "new-task"

    def __init__(
        self, judge: str, parameters: Mapping[str, Any], load: Callable[[str], bytes], path: Path | None = None
    ) -> None:
        self.template = PromptTemplate(("judges", "new_task.md"), path, ("sent_prompt", "answers"))
        self.prompt_digest = short_digest([self.template.source, dict(parameters), LAYOUT])
        self._judge = judge
        self._load = load

    def subjects(self, stored: Stored) -> Sequence[Subject]:
        """Return every variant, agent and role with c = 0 and |S| = 1 over all planned ``underspecified`` trials."""
        cells: dict[tuple[str | None, ...], list[StoredTrial]] = defaultdict(list)
        for trial in stored.trials:
            started = trial.started
            if started.condition == "underspecified" and started.variant_digest in stored.variants:
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

    def question(self, subject: Subject, stored: Stored, reader: StreamReader) -> str:
        """Return the user prompt of one variant."""
        answers = [self._handed_in(trial, reader) for trial in subject.trials]
        numbered = [f"Attempt {number}:\n{answer}" for number, answer in enumerate(answers, 1)]
        variant = stored.variants[subject.last.started.variant_digest or ""]
        return self.template.user({"sent_prompt": variant.prompt, "answers": "\n\n".join(numbered)})

    def read(self, reply: str) -> NewTaskVerdict:
        """Return what the judge says; raises UnusableReply."""
        return read_new_task(reply)

    def event(self, subject: Subject, verdict: NewTaskVerdict) -> NewTaskJudged:
        """Return what is recorded of one variant."""
        return NewTaskJudged(
            variant_digest=subject.last.started.variant_digest or "",
            judged_stream_ids=tuple(sorted(_streams(subject.trials))),
            verdict=verdict.verdict,
            reason=verdict.reason,
            judge=self._judge,
            prompt_digest=self.prompt_digest,
        )

    def _handed_in(self, trial: StoredTrial, reader: StreamReader) -> str:
        """The final answer of a trial and the files that its grader kept."""
        stored = [event for event in reader.read(trial.stream_id) if isinstance(event, ArtifactStored)]
        files = [event for event in stored if event.role != "environment"]  # what the agent met is not its work
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


def _is_candidate(trials: Sequence[StoredTrial], stored: Stored) -> bool:
    planned = max(stored.planned.get(trial.experiment_id, 0) for trial in trials)
    states = {_terminal_state(trial, stored.tasks[trial.started.task_digest]) for trial in trials}
    has_success = any(trial.finished.is_success for trial in trials)
    return len(trials) >= planned and not has_success and len(states) == 1


def _terminal_state(trial: StoredTrial, task: Task) -> tuple[float, ...]:
    """The results in the order of the task; a claim of mcp_atlas counts only when it is whole."""
    scores = [trial.results[checkpoint.checkpoint_id].score for checkpoint in task.checkpoints]
    return tuple(float(score == 1.0) if task.benchmark == "mcp_atlas" else score for score in scores)
