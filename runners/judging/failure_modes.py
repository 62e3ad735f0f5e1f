"""Judge how a trial asked questions: the failure-mode flags that cannot be computed from recorded facts.

Source: LHAW, section 4.4 and appendix J.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lhaw_record.recorder.events import JudgedFlag, QuestionJudged
from lhaw_record.recorder.events.canonical_json import short_digest
from lhaw_record.runners.judging.protocol import Subject
from lhaw_record.runners.judging.stored_trials import StoredTrials, StreamReader
from lhaw_record.runners.judging.transcript import LAYOUT, actions_text, outcome_text, questions_text, removed_text
from lhaw_record.runners.judging.verdicts import FLAGS_FORM, read_flags
from lhaw_record.runners.models.llm_jobs.prompt_template import PromptTemplate

_PLACEHOLDERS = ("full_prompt", "sent_prompt", "removed", "questions", "actions", "outcome")


class FailureModes:
    """The judge of questions.

    Args:
        judge: The judge's name in the events, which is its model's name.
        parameters: Generation parameters. Different parameters count as a different judge.
        path: A custom prompt instead of ``data/judges/failure_modes.md``.
    """

    kind = "failure-modes"
    form = FLAGS_FORM

    def __init__(self, judge: str, parameters: Mapping[str, Any], path: Path | None = None) -> None:
        self.template = PromptTemplate(("judges", "failure_modes.md"), path, _PLACEHOLDERS)
        self.prompt_digest = short_digest([self.template.source, dict(parameters), LAYOUT])
        self._judge = judge

    def subjects(self, stored: StoredTrials) -> Sequence[Subject]:
        """Return every valid trial in which the agent asked questions."""
        return [
            Subject(
                trials=(trial,),
                is_judged=(trial.stream_id, self._judge, self.prompt_digest) in stored.judged_questions,
            )
            for trial in stored.trials
            if trial.question_count
        ]

    def question(self, subject: Subject, stored: StoredTrials, reader: StreamReader) -> str:
        """Return the user prompt for one trial."""
        trial = subject.last
        task = stored.tasks[trial.started.task_digest]
        variant = stored.variants.get(trial.started.variant_digest or "")
        hidden = None if trial.started.prompt_state == "full" else variant
        events = reader.read(trial.stream_id)
        return self.template.user(
            {
                "full_prompt": task.prompt,
                "sent_prompt": hidden.prompt if hidden else task.prompt,
                "removed": removed_text(hidden.segments if hidden else ()),
                "questions": questions_text(events),
                "actions": actions_text(events),
                "outcome": outcome_text(trial, task),
            }
        )

    def read(self, reply: str) -> tuple[JudgedFlag, ...]:
        """Return the verdict on each judged flag. Raises UnusableReply."""
        return read_flags(reply)

    def event(self, subject: Subject, verdict: tuple[JudgedFlag, ...]) -> QuestionJudged:
        """Return the event that records the verdict about one trial."""
        return QuestionJudged(
            judged_stream_id=subject.last.stream_id,
            judged_trial_id=subject.last.trial_id,
            judge=self._judge,
            prompt_digest=self.prompt_digest,
            flags=verdict,
        )
