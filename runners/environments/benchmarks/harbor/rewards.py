"""Read the rewards that a task's tests wrote, with Harbor's own rules (harbor 0.25, ``verifier/verifier.py``).

``reward.json`` counts before ``reward.txt``, even if it is empty. Whatever has no finite number is no reward, which is
not the same as a reward of 0.
"""

import json
import math
from collections.abc import Mapping

REWARD_JSON = "reward.json"
REWARD_TEXT = "reward.txt"
ONLY_REWARD = "reward"
"""The name of the reward in ``reward.txt``."""


class NoReward(Exception):
    """The tests left no usable reward.

    Args:
        message: What is wrong with the files.
        kind: A short identifier for tables: ``no_reward``, ``empty_reward`` or ``garbage_reward``.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


def read_rewards(files: Mapping[str, bytes]) -> dict[str, float]:
    """Return the rewards by name."""
    name = next((name for name in (REWARD_JSON, REWARD_TEXT) if name in files), None)
    if name is None:
        raise NoReward(f"the tests wrote neither {REWARD_TEXT} nor {REWARD_JSON} to /logs/verifier", "no_reward")
    content = files[name]
    if not content:
        raise NoReward(f"{name} is empty", "empty_reward")
    try:
        return _json_rewards(content) if name == REWARD_JSON else {ONLY_REWARD: _finite(float(content.decode()))}
    except (ValueError, OverflowError, RecursionError) as error:
        shown = content[:80].decode("utf-8", "replace")
        raise NoReward(f"{name} is {shown!r}: {error}", "garbage_reward") from error


def _json_rewards(content: bytes) -> dict[str, float]:
    rewards = json.loads(content.decode())
    if not isinstance(rewards, dict) or not rewards:
        raise ValueError('it must be an object with numbers, such as {"reward": 1.0}')
    if not all(isinstance(value, int | float) for value in rewards.values()):
        raise ValueError("every reward must be a number")
    return {name: _finite(float(value)) for name, value in rewards.items()}


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    return value
