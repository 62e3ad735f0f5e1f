"""The course of one attempt: which actions an agent takes, when it learns what was removed, and what it achieves.

Nothing about success is written into a trial: an agent that lacks a segment guesses or goes astray, one that learns it
late has work to do again, and the scores follow. So classes, gains and timing curves emerge as they do from real runs.
"""

from random import Random
from typing import NamedTuple

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.interaction import ActionKind
from lhaw_record.recorder.events.trial import EndedBy
from tests.synthetic.design import Trial
from tests.synthetic.tasks import Step
from tests.synthetic.wording import FINAL_ANSWER, question_about

MALFORMED_RATE = 0.01
TEXT_RATE = 0.02
DETOUR_RATE = 0.08
LOST_DETOUR_RATE = 0.3
SKIP_RATE = 0.04
UNFINISHED_RATE = 0.02
REWORK_RATE = 0.6
REVEAL_RATE = 0.85
LATE_SUCCESS = {True: 0.8, False: 0.15}  # after doing the work again, and without
SUBMIT = Step("submit", canonical_json({"answer": FINAL_ANSWER}).decode(), "Submitted.")


class Act(NamedTuple):
    """One action of a course; ``asks_about`` is the segment that a question is about."""

    kind: ActionKind
    step: Step
    asks_about: str | None = None
    is_revealed: bool = False


class Course(NamedTuple):
    """What happens in one attempt. A turn is one reply of the model with its actions."""

    turns: list[list[Act]]
    injected_after: int | None
    ended_by: EndedBy
    shares: list[float]

    @property
    def action_count(self) -> int:
        """How many actions it has."""
        return sum(map(len, self.turns))


def course_of(trial: Trial, chance: Random, target_action: int | None) -> Course:
    """Return what happens; the same for the same chance.

    Args:
        trial: The trial.
        chance: Freshly seeded for this attempt.
        target_action: After which action the injection is due, None without one.
    """
    return _Walk(trial, chance).run(target_action)


class _Walk:
    """An agent on its way through a task's script."""

    def __init__(self, trial: Trial, chance: Random) -> None:
        self._task = trial.task
        self._agent = trial.agent
        self._chance = chance
        self._removed = [each.segment_id for each in trial.variant.variant.segments] if trial.variant else []
        self._guess_rate = trial.variant.guess_rate if trial.variant else 1.0
        self._length = len(trial.task.script)
        self._place = 0
        self._furthest = 0
        self._known: dict[str, float] = {}  # segment to the chance that its checkpoint is met
        self._questions = self._planned_questions() if trial.condition == "ask_user" else []

    def run(self, target_action: int | None) -> Course:
        """Walk to the end."""
        turns: list[list[Act]] = []
        count, injected_after = 0, None
        while self._place < self._length:
            turn = self._question() or self._work()
            if turn:
                turns.append(turn)
                count += len(turn)
            if target_action is not None and injected_after is None and count >= target_action:
                injected_after = count
                for segment_id in self._removed:
                    self._learn(segment_id)
        is_finished = self._chance.random() >= UNFINISHED_RATE
        if is_finished:
            turns.append([Act("tool", SUBMIT)])
        return Course(turns, injected_after, "submitted" if is_finished else "turn_limit", self._shares(is_finished))

    def _planned_questions(self) -> list[tuple[int, str]]:
        """Where in the script the agent asks about what; nothing where it asks nothing."""
        chance, agent = self._chance, self._agent
        if not self._removed or chance.random() >= agent.ask_rate:
            return []
        first = agent.asks_at * 2 * chance.random()
        asked = [*self._removed, *([self._removed[0]] if chance.random() < 0.3 else ())]
        return [(int(self._length * min(0.95, first + 0.1 * number)), each) for number, each in enumerate(asked)]

    def _question(self) -> list[Act]:
        if not self._questions or self._place < self._questions[0][0]:
            return []
        _, segment_id = self._questions.pop(0)
        is_revealed = self._chance.random() < REVEAL_RATE
        if is_revealed:
            self._learn(segment_id)
        arguments = canonical_json({"context": "", "question": question_about(segment_id)}).decode()
        question = Step("ask_user", arguments, None)
        return [Act("tool", question, segment_id, is_revealed)]

    def _work(self) -> list[Act]:
        """One reply: mostly one action, sometimes a batch of two or three; rarely text alone or a broken call."""
        chance, task = self._chance, self._task
        draw = chance.random()
        if draw < TEXT_RATE:
            return [Act("text", Step("message", "{}", ""))]
        detour_rate = LOST_DETOUR_RATE if self._is_lost() else DETOUR_RATE
        turn: list[Act] = []
        for _ in range(1 if draw < 0.8 else 2 if draw < 0.95 else 3):
            draw = chance.random()
            if draw < detour_rate:
                turn.append(Act("tool", task.detours[int(chance.random() * len(task.detours))]))
            elif self._place < self._length:
                step = task.script[self._place]
                self._place += 1
                if draw < 1 - SKIP_RATE:
                    turn.append(Act("malformed" if draw < detour_rate + MALFORMED_RATE else "tool", step))
        self._furthest = max(self._furthest, self._place)
        return turn

    def _is_lost(self) -> bool:
        """Whether something that was removed is needed by now and not known."""
        share = self._place / self._length
        return any(each not in self._known and self._task.first_use[each] <= share for each in self._removed)

    def _learn(self, segment_id: str) -> None:
        """Take in what was removed; too late, some work may be done again from where it was first needed."""
        if segment_id in self._known:
            return
        needed_from = int(self._task.first_use[segment_id] * self._length)
        if self._furthest <= needed_from:
            self._known[segment_id] = 1.0
            return
        does_again = self._chance.random() < REWORK_RATE
        self._known[segment_id] = LATE_SUCCESS[does_again]
        if does_again:
            self._place = min(self._place, needed_from)

    def _shares(self, is_finished: bool) -> list[float]:
        """The share of its points that each checkpoint gets: all, half or none."""
        chance = self._chance
        rates = [self._agent.skill if is_finished else 0.5] * len(self._task.task.checkpoints)
        for segment_id in self._removed:
            rates[self._task.needed_by[segment_id]] *= self._known.get(segment_id, self._guess_rate)
        return [1.0 if chance.random() < rate else 0.5 if chance.random() < 0.3 else 0.0 for rate in rates]
