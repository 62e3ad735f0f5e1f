"""Decides what a scripted model does next: plan, ask, work, check itself or hand in.

The decision is a pure function of the conversation. A step is done once exactly its call, with the current values, is
in the conversation after the steps that it builds on. If a value changes, every step that used it is therefore undone
and must be repeated.
"""

import shlex
from collections.abc import Sequence

import msgspec

from lhaw_record.runners.agents.scripted.archetypes import Habits
from lhaw_record.runners.agents.scripted.beliefs import Beliefs, confirmation_of, read_stated
from lhaw_record.runners.agents.scripted.transcript import PastCall, Transcript
from lhaw_record.runners.environments.benchmarks.desk.recipe import Memory, Recipe, RecipeParameter, RecipeStep

_CHECK = "wc -c -- "
_MOST_FAILED_CHECKS = 2


class WorkProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the work has come.

    Args:
        done: The steps that are done, in order.
        to_do: The first step that is not done, and all steps that follow it.
        memory: The result of each step's call, by the name of the step.
        last_call: The position of the latest call that counts, or -1 if there is none.
    """

    done: tuple[RecipeStep, ...]
    to_do: tuple[RecipeStep, ...]
    memory: dict[str, str]
    last_call: int


def measure_progress(
    steps: Sequence[RecipeStep],
    transcript: Transcript,
    beliefs: Beliefs,
    evidence: Memory,
    redo_deliveries_after: int = -1,
) -> WorkProgress:
    """Find out which steps are done and which are to do."""
    memory, positions = dict(evidence), dict[str, int]()
    done_count = 0
    for step in steps:
        past = latest_call(step, transcript, beliefs, memory)
        oldest = max((positions.get(name, -1) for name in step.after), default=-1)
        if step.is_delivery:
            oldest = max(oldest, redo_deliveries_after)
        if past is None or past.position < oldest:
            break
        memory[step.name] = past.result
        positions[step.name] = past.position
        done_count += 1
    return WorkProgress(
        done=tuple(steps[:done_count]),
        to_do=tuple(steps[done_count:]),
        memory=memory,
        last_call=max(positions.values(), default=-1),
    )


def latest_call(step: RecipeStep, transcript: Transcript, beliefs: Beliefs, memory: Memory) -> PastCall | None:
    """Return the latest call of a step with the current values, or None."""
    calls = transcript.all_of(step.tool, beliefs.call_of(step, memory))
    return calls[-1] if calls else None


def deliverables_check(names: Sequence[str]) -> dict[str, str]:
    """Return the arguments of a shell call that shows whether some files exist."""
    return {"command": _CHECK + " ".join(shlex.quote(name) for name in names)}


def failed_check_position(transcript: Transcript) -> int:
    """Return the position of the latest check that found a file missing, or -1 if there is none.

    After more than two failed checks, the model gives up, and the result is -1.
    """
    failed = [
        call.position
        for call in transcript.calls
        if str(call.arguments.get("command")).startswith(_CHECK) and "No such file" in call.result
    ]
    return failed[-1] if failed and len(failed) <= _MOST_FAILED_CHECKS else -1


class PlannedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call to make. ``reason`` says why, in words that follow "Next I …"."""

    tool: str
    arguments: dict[str, str]
    reason: str


class PlannedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of the model. Without calls, it is only text."""

    text: str
    calls: tuple[PlannedCall, ...] = ()


class Policy:
    """Decides the next turn of one model at one point of a conversation.

    Args:
        recipe: How the task is solved.
        transcript: The conversation so far.
        habits: How the model works.
        seed: Picks its guesses.
        tools: The names of the tools that are offered now. The model skips steps that need another tool.
    """

    def __init__(
        self, recipe: Recipe, transcript: Transcript, habits: Habits, seed: int, tools: frozenset[str]
    ) -> None:
        self._recipe = recipe
        self._transcript = transcript
        self._habits = habits
        self._tools = tools
        self._stated = read_stated(recipe.parameters, transcript)
        self._beliefs = Beliefs(recipe, self._stated, seed, heeds_rules=not habits.is_hasty)
        usable = [step for step in recipe.steps if step.tool in tools]
        self._steps = [step for step in usable if not (step.is_extra and habits.is_hasty)]
        is_late_reader = habits.checks_itself and habits.is_hasty
        self._late_reading = [step for step in usable if step.is_extra and not step.needed()] if is_late_reader else []

    def next_turn(self) -> PlannedTurn:
        """Return the next reply."""
        if self._habits.plans_first and self._transcript.text_turns <= self._stated.change_count:
            return PlannedTurn(text=self._plan())
        progress = self._progress()
        if self._transcript.work_calls >= self._habits.patience * len(self._steps):
            return self._hand_in(progress)
        question = self._due_question(progress)
        if question is not None:
            return self._turn(question)
        if progress.to_do:
            return self._turn(*self._next_calls(progress))
        check = self._self_check(progress) if self._habits.checks_itself else None
        return self._turn(check) if check else self._hand_in(progress)

    # working

    def _progress(self) -> WorkProgress:
        past = {step.name: latest_call(step, self._transcript, self._beliefs, {}) for step in self._late_reading}
        evidence = {name: call.result for name, call in past.items() if call is not None}
        redo_after = failed_check_position(self._transcript) if self._habits.checks_itself else -1
        return measure_progress(self._steps, self._transcript, self._beliefs, evidence, redo_after)

    def _next_calls(self, progress: WorkProgress) -> list[PlannedCall]:
        """Return the next step, together with the one after it if this model reads both in one turn."""
        steps = [progress.to_do[0]]
        for follower in progress.to_do[1:2]:
            is_open = latest_call(follower, self._transcript, self._beliefs, progress.memory) is None
            if self._habits.reads_in_pairs and follower.joins_previous and is_open:
                steps.append(follower)
        return [
            PlannedCall(tool=step.tool, arguments=self._beliefs.call_of(step, progress.memory), reason=step.name)
            for step in steps
        ]

    # asking

    def _due_question(self, progress: WorkProgress) -> PlannedCall | None:
        """Return the next question that cannot wait, or None.

        The model looks at the work directory before it asks anything.
        """
        if not progress.done:
            return None
        due = []
        if self._habits.asks == "at_once":
            may_tell = self._habits.asks_what_files_may_tell
            early = [item for item in self._recipe.parameters if may_tell or item.find is None]
            due += [item.question for item in early if self._is_worth_asking(item, {})]
            due += self._confirmations()
        needed = progress.to_do[0].needed() if progress.to_do else self._stated.doubted
        due += [
            item.question
            for item in self._recipe.parameters
            if item.name in needed and self._is_worth_asking(item, progress.memory)
        ]
        return self._ask(due)

    def _is_worth_asking(self, parameter: RecipeParameter, memory: dict[str, str], bonus: float = 0.0) -> bool:
        is_known = self._beliefs.is_known(parameter, memory)
        return not is_known and parameter.criticality + bonus >= self._habits.asks_from_criticality

    def _confirmations(self) -> list[str]:
        stated = [item for item in self._recipe.parameters if item.name in self._stated.values]
        unasked = [item for item in stated if item.question not in self._transcript.questions]
        return [confirmation_of(item.question) for item in unasked[: self._habits.confirmations]]

    def _ask(self, questions: list[str]) -> PlannedCall | None:
        """Return a call that asks the first of the questions that was not asked yet, or None."""
        question = next((item for item in questions if item not in self._transcript.questions), None)
        if question is None or self._habits.asks == "never" or "ask_user" not in self._tools:
            return None
        return PlannedCall(tool="ask_user", arguments={"question": question}, reason="ask, because I was not told")

    # checking

    def _self_check(self, progress: WorkProgress) -> PlannedCall | None:
        """Return the next call of the self-check, or None if the check is complete.

        The model settles its assumptions by reading and asking, then checks that the deliverables exist.
        """
        for step in self._late_reading:
            if step.name not in progress.memory:
                return PlannedCall(tool=step.tool, arguments=step.filled({}), reason=step.name)
        used = self._used_parameters(progress)
        question = self._ask([item.question for item in used if self._is_worth_asking(item, progress.memory, 0.5)])
        if question is not None:
            return question
        names = [self._beliefs.value(name, progress.memory) for name in self._recipe.deliverables]
        if not names or "bash" not in self._tools:
            return None
        arguments = deliverables_check(names)
        checks = self._transcript.all_of("bash", arguments)
        if checks and checks[-1].position > progress.last_call:
            return None
        return PlannedCall(tool="bash", arguments=arguments, reason="check that everything is there")

    # speaking

    def _turn(self, *calls: PlannedCall) -> PlannedTurn:
        text = f"Thought: next I {calls[0].reason}." if self._habits.thinks_aloud else ""
        return PlannedTurn(text=text, calls=calls)

    def _plan(self) -> str:
        lines = [f"{number}. {step.name}" for number, step in enumerate(self._steps, start=1)]
        unknown = [item.name for item in self._recipe.parameters if item.name not in self._stated.values]
        return "\n".join(["Plan:", *lines, f"Still unknown: {', '.join(unknown) or 'nothing'}."])

    def _hand_in(self, progress: WorkProgress) -> PlannedTurn:
        assumed = [
            f"{item.name} = {self._beliefs.value(item.name, progress.memory)}"
            for item in self._used_parameters(progress)
            if not self._beliefs.is_known(item, progress.memory)
        ]
        answer = self._recipe.answer + (f" I assumed {', '.join(assumed)}." if assumed else "")
        if "submit" not in self._tools:
            return PlannedTurn(text=answer)
        return self._turn(PlannedCall(tool="submit", arguments={"answer": answer}, reason="hand in the result"))

    def _used_parameters(self, progress: WorkProgress) -> list[RecipeParameter]:
        names = {name for step in progress.done for name in step.needed()}
        return [item for item in self._recipe.parameters if item.name in names]
