"""A person as the user: open questions lie as files in the store, where the daemon's page and ``answer`` find them.

A question is a file that its trial holds locked, so that it is open exactly as long as the trial waits, whatever
happens to its process. The answer is a second file, and the first one counts.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import msgspec

from lhaw_record.recorder.storage.journal import is_live
from lhaw_record.runners.users.simulated_user.answers import heard
from lhaw_record.runners.users.simulated_user.protocol import UserAnswer, UserKnowledge

_LOOK_S = 0.2


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question that waits for a person. ``full_prompt`` has the values that were removed from ``sent_prompt``."""

    question_id: str
    experiment: str
    task: str
    agent: str
    question: str
    context: str
    sent_prompt: str
    full_prompt: str
    asked_at_s: float


class GivenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says, None if they decline; who they are, and whether they saw the full prompt."""

    text: str | None
    by: str
    saw_values: bool


class PersonUser:
    """Waits for a person to answer.

    Args:
        folder: The store's folder of open questions.
        asker: What is known before any question: the trial's id, experiment, task and agent.
        declined: What the agent is told if the person declines.
    """

    name = "person"
    is_person = True

    def __init__(self, folder: Path, asker: dict[str, str], declined: str) -> None:
        self._folder, self._asker, self._declined = folder, asker, declined
        self._count = 0

    async def answer(self, question: str, context: str, knowledge: UserKnowledge) -> UserAnswer:
        """Return what a person answers. What it gives is read by the rules."""
        self._count += 1
        shown = OpenQuestion(
            **{**self._asker, "question_id": f"{self._asker['question_id']}-{self._count}"},
            question=question,
            context=context,
            sent_prompt=knowledge.sent_prompt,
            full_prompt=knowledge.full_prompt,
            asked_at_s=time.time(),
        )
        with _put(self._folder, shown):
            while (given := _given(self._folder, shown.question_id)) is None:  # noqa: ASYNC110  files give no event
                await anyio.sleep(_LOOK_S)
        answer = await heard(question, context, given.text, knowledge)
        told = self._declined if given.text is None else given.text
        return msgspec.structs.replace(answer, text=told, by=given.by, saw_values=given.saw_values)


@contextmanager
def _put(folder: Path, question: OpenQuestion) -> Iterator[None]:
    """Show a question to people during the block. An answer to it from before a restart is dropped."""
    folder.mkdir(exist_ok=True)
    path, answer = folder / f"{question.question_id}.json", _answer_path(folder, question.question_id)
    answer.unlink(missing_ok=True)
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, msgspec.json.encode(question))
        new.rename(path)
        yield
    finally:
        path.unlink(missing_ok=True)
        answer.unlink(missing_ok=True)
        os.close(descriptor)


def open_questions(folder: Path) -> list[OpenQuestion]:
    """Return the questions that wait for a person, the oldest first, and remove those of trials that are dead."""
    found = []
    for path in folder.glob("*.json"):
        with suppress(FileNotFoundError):
            if is_live(path):
                found.append(msgspec.json.decode(path.read_bytes(), type=OpenQuestion))
            else:
                path.unlink()
    return sorted(found, key=lambda each: each.asked_at_s)


def give(folder: Path, question_id: str, answer: GivenAnswer) -> bool:
    """Give an answer to an open question, and return whether it is the first one."""
    if question_id not in {each.question_id for each in open_questions(folder)}:
        return False
    path = _answer_path(folder, question_id)
    new = path.with_suffix(f".{os.getpid()}.{time.monotonic_ns()}")
    new.write_bytes(msgspec.json.encode(answer))
    try:
        path.hardlink_to(new)
    except FileExistsError:
        return False
    finally:
        new.unlink()
    return True


def _given(folder: Path, question_id: str) -> GivenAnswer | None:
    with suppress(FileNotFoundError):
        return msgspec.json.decode(_answer_path(folder, question_id).read_bytes(), type=GivenAnswer)
    return None


def _answer_path(folder: Path, question_id: str) -> Path:
    return folder / f"{question_id}.answer"
