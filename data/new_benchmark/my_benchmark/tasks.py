"""The tasks: what the agent is asked, the files that it finds, and what its variants leave out."""

import re

import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Checkpoint, ExpectedQuestions, Segment, Task, Variant
from lhaw_record.runners.models.replay import Reference, ReferenceCall, ReferenceParameter

NAME = "my_benchmark"
VERSION = "1"  # change it whenever a task, a file or the grader changes: it is part of every trial's identity
WHAT = "Count the words in notes.txt and create a file sum.json with the number."

CHECKPOINTS = (
    Checkpoint(checkpoint_id="c1", label="sum.json holds a number"),
    Checkpoint(checkpoint_id="c2", label="the number is right"),
)


class CountingTask(msgspec.Struct, frozen=True):
    """Count the words of some length in a text."""

    task_id: str
    text: str
    minimum: int
    spelled: str

    @property
    def phrase(self) -> str:
        """What the variant leaves out, exactly as in the prompt."""
        return f"of at least {self.spelled} letters"

    @property
    def right_count(self) -> int:
        """What the grader expects."""
        return len(re.findall(rf"[A-Za-z]{{{self.minimum},}}", self.text))

    def task(self) -> Task:
        """Return the task as it is recorded."""
        return Task(
            benchmark=NAME,
            benchmark_version=VERSION,
            task_id=self.task_id,
            prompt=f"{WHAT} Only words {self.phrase} count.",
            checkpoints=CHECKPOINTS,
            environment_digest=digest(self.text),
        )

    def variant(self) -> Variant:
        """Return the underspecified variant. `lhaw-record generate` makes more of them."""
        return Variant(
            benchmark=NAME,
            task_id=self.task_id,
            variant_id=f"{self.task_id}/length",
            prompt=WHAT,
            segments=(
                Segment(
                    segment_id="S1",
                    value=self.phrase,
                    dimension="constraint",
                    subdimension="numeric_bound",
                    synonyms=("length of the words", "how many letters", "which words count"),
                ),
            ),
            expected_questions=(
                ExpectedQuestions(segment_id="S1", questions=("Which words count?", "How long must a word be?")),
            ),
            origin="hand_written",
            severity="delete",
        )

    def reference(self) -> Reference:
        """Return how the task is done, for scripted models that replay it; optional."""
        count = f"grep -oE '[A-Za-z]{{{self.minimum},}}' notes.txt | wc -l > sum.json"
        return Reference(
            task_id=self.task_id,
            origin="own",
            calls=(
                ReferenceCall(name="read_file", arguments={"path": "notes.txt"}),
                ReferenceCall(name="bash", arguments={"command": count}),
                ReferenceCall(name="read_file", arguments={"path": "sum.json"}),
            ),
            parameters=(
                ReferenceParameter(
                    name="minimum",
                    value=self.phrase,
                    written=str(self.minimum),
                    question="How many letters must a word have to be counted?",
                    guesses=("1",),
                ),
            ),
        )


TASKS = (
    CountingTask("ships", "A ship in harbour is safe, but that is not what ships are for.", 4, "four"),
    CountingTask("rain", "Into each life some rain must fall; some days are dark and dreary.", 5, "five"),
)
