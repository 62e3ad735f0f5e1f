"""The habits of each scripted model, and how the strategy and persona in its system prompt change them."""

import re
from typing import Literal

import msgspec


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """How a scripted model goes about any task.

    Args:
        asks: When it asks the user: never, when the next step needs the value, or at once after a first look.
        asks_from_criticality: The lowest criticality of a parameter that justifies a question.
        asks_what_files_may_tell: Whether it asks even if a file could contain the answer.
        confirmations: How many stated values it asks the user to confirm.
        reads_in_pairs: Whether it may read two files in one turn.
        is_hasty: Whether it skips extra reading.
        patience: The maximum number of calls per step that it takes. Once it is reached, the model hands in what it
            has.
        thinks_aloud: Whether it writes a thought before each call, and makes one call at a time.
        checks_itself: Whether it reviews its files and assumptions before it hands in.
        plans_first: Whether it writes a plan first, asks all its questions early, and plans again when it learns
            something.
    """

    asks: Literal["never", "when_needed", "at_once"]
    asks_from_criticality: float = 0.5
    asks_what_files_may_tell: bool = False
    confirmations: int = 0
    reads_in_pairs: bool = False
    is_hasty: bool = False
    patience: float
    thinks_aloud: bool = False
    checks_itself: bool = False
    plans_first: bool = False


ARCHETYPES: dict[str, Habits] = {
    "scripted/over_clarifier": Habits(
        asks="at_once", asks_from_criticality=0.0, asks_what_files_may_tell=True, confirmations=1, patience=2.5
    ),
    "scripted/balanced": Habits(asks="when_needed", reads_in_pairs=True, patience=1.4),
    "scripted/never": Habits(asks="never", is_hasty=True, patience=1.25),
}


def habits_of(name: str, system: str) -> Habits:
    """Return the habits of an archetype, as changed by a system prompt.

    Strategies and personas are recognised by phrases rather than by name, so that a user's own wording works too.
    """
    habits = ARCHETYPES[name]
    change = msgspec.structs.replace
    if _demands(system, r"\bthought\b"):
        habits = change(habits, thinks_aloud=True, reads_in_pairs=False)
    if _demands(system, r"\b(self-check|reflect|assess your)"):
        habits = change(habits, checks_itself=True, patience=habits.patience + 0.5)
    if _demands(system, r"\b(write|make|start with) a plan\b"):
        habits = change(habits, plans_first=True, asks="never" if habits.asks == "never" else "at_once")
    if _demands(system, r"\b(beside you|sitting with you|do not guess)\b"):
        habits = change(
            habits,
            asks_from_criticality=habits.asks_from_criticality - 0.5,
            confirmations=habits.confirmations * 2,
            asks_what_files_may_tell=True,
            is_hasty=False,
        )
    if _demands(system, r"\b(very busy|not be disturbed|do not disturb)\b"):
        habits = change(
            habits,
            asks_from_criticality=habits.asks_from_criticality + 0.5,
            confirmations=0,
            asks_what_files_may_tell=False,
        )
    return habits


def _demands(system: str, pattern: str) -> bool:
    return re.search(pattern, system, re.IGNORECASE) is not None
