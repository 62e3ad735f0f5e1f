"""The two groups of a comparison: parse their names, and check that they can be compared.

The command line calls a group an arm. A group is written ``AGENT:CONDITION``, as an agent alone, or as a condition
alone. ``agent=NAME,condition=NAME`` is equivalent. Both groups must name the same keys. Units are paired within each
value of the unnamed key: ``ask_user`` against ``underspecified`` pairs the variants of each agent, and ``balanced``
against ``hasty`` pairs the variants under each condition.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import NamedTuple

from lhaw_record.analytics.errors import BadParameter, UnknownName
from lhaw_record.recorder.events.values import CONDITIONS, is_own_condition

MEASURES = ("pass_at_1", "pass_at_k", "pass_hat_k", "checkpoint_progress", "ask_pct", "questions_per_trial")

SPLITS: Mapping[str, str] = {
    "benchmark": "benchmark",
    "task": "task_id",
    "class": "coalesce(ambiguity_class, 'unclassified')",
    "dimension": "dimension",
    "agent": "agent",
    "condition": "condition",
}
"""The SQL expressions of the available splits. The first row is always ``all``."""


class Group(NamedTuple):
    """One side of a comparison. A field that is None matches every value."""

    agent: str | None
    condition: str | None

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self._asdict().items() if value is not None)


def parse_group(text: str) -> Group:
    """Parse a group from its command-line form, which the module docstring describes."""
    if "=" in text:
        named = [part.partition("=") for part in text.split(",")]
        found = {name.strip(): value.strip() for name, _, value in named}
        if not found.keys() <= set(Group._fields) or len(found) < len(named) or not all(found.values()):
            raise BadParameter(f"the arm {text!r} cannot be read; write agent=NAME,condition=NAME, or one of the two")
        arm = Group(found.get("agent"), found.get("condition"))
    elif _is_condition(text):
        arm = Group(None, text)
    else:
        agent, has_condition, condition = text.rpartition(":")
        arm = Group(agent, condition) if has_condition else Group(text, None)
    if arm.condition is not None and not _is_condition(arm.condition):
        raise BadParameter(f"there is no condition {arm.condition!r} (arm {text!r}); known: {', '.join(CONDITIONS)}")
    return arm


def _is_condition(text: str) -> bool:
    return text in CONDITIONS or is_own_condition(text)


def check_groups(
    a: Group,
    b: Group,
    by: str | None,
    known: Sequence[tuple[str, str]],
    left_out: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Check that two groups can be compared."""
    if a == b:
        raise BadParameter(f"both arms are {a}; name two different arms")
    named = [[name for name in Group._fields if getattr(arm, name) is not None] for arm in (a, b)]
    if named[0] != named[1]:
        said = " and ".join(f"{arm} names {' and '.join(names)}" for arm, names in zip((a, b), named, strict=True))
        raise BadParameter(f"{said}; name the same keys in both, for example agent=NAME,condition=NAME twice")
    if by in named[0]:
        raise BadParameter(f"both arms name the {by}, so it cannot split the rows; leave it out of both")
    for arm in (a, b):
        if not any(arm.agent in (None, agent) and arm.condition in (None, name) for agent, name in known):
            reason = left_out.get(arm.agent or "")
            why = f" ({reason})" if reason else _meant(arm, known)
            raise UnknownName(f"no trials of {arm}{why}; there are: {_listed(known) or 'none that tables use'}")


def _meant(arm: Group, known: Sequence[tuple[str, str]]) -> str:
    """Return "did you mean ...?" with the most similar known agent, or an empty text."""
    names = {agent.lower(): agent for agent, _ in known}
    near = get_close_matches((arm.agent or "").lower(), names, n=1)
    return f"; did you mean {names[near[0]]}?" if near and names[near[0]] != arm.agent else ""


def _listed(known: Sequence[tuple[str, str]]) -> str:
    """List every agent with its conditions, merging agents with the same conditions."""
    agents: dict[tuple[str, ...], list[str]] = {}
    for agent in dict.fromkeys(agent for agent, _ in known):
        agents.setdefault(tuple(name for each, name in known if each == agent), []).append(agent)
    return "; ".join(f"{', '.join(names)} under {', '.join(conditions)}" for conditions, names in agents.items())
