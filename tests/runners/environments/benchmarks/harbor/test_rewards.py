"""Reading reward files: every case of Harbor's verifier, and what is no reward."""

import pytest

from lhaw_record.runners.environments.benchmarks.harbor.rewards import NoReward, read_rewards

REWARDS = [
    ({"reward.txt": b"1\n"}, {"reward": 1.0}),
    ({"reward.txt": b" -0.25 "}, {"reward": -0.25}),
    ({"reward.json": b'{"a": 1, "b": true, "c": 0.5}'}, {"a": 1.0, "b": 1.0, "c": 0.5}),
    ({"reward.json": b'{"a": 0}', "reward.txt": b"1"}, {"a": 0.0}),
]
NONE = [
    ({}, "no_reward"),
    ({"reward.txt": b""}, "empty_reward"),
    ({"reward.json": b"", "reward.txt": b"1"}, "empty_reward"),
    ({"reward.txt": b"passed"}, "garbage_reward"),
    ({"reward.txt": b"nan"}, "garbage_reward"),
    ({"reward.txt": b"\xff\xfe1"}, "garbage_reward"),
    ({"reward.txt": b"1 0"}, "garbage_reward"),
    ({"reward.json": b"1"}, "garbage_reward"),
    ({"reward.json": b"{}"}, "garbage_reward"),
    ({"reward.json": b'{"a": "1"}'}, "garbage_reward"),
    ({"reward.json": b'{"a": null}'}, "garbage_reward"),
    ({"reward.json": b'{"a": {"b": 1}}'}, "garbage_reward"),
    ({"reward.json": b'{"a": 1e999}'}, "garbage_reward"),
    ({"reward.json": b'{"a": ' + b"9" * 400 + b"}"}, "garbage_reward"),
    ({"reward.json": b"[" * 100_000}, "garbage_reward"),
]


@pytest.mark.parametrize(("files", "rewards"), REWARDS)
def test_rewards_are_read(files, rewards):
    """Finite numbers are rewards, also negative ones; JSON counts before text."""
    assert read_rewards(files) == rewards


@pytest.mark.parametrize(("files", "kind"), NONE)
def test_what_is_no_reward_is_never_a_zero(files, kind):
    """A missing, empty or malformed file raises; its kind says which."""
    with pytest.raises(NoReward) as raised:
        read_rewards(files)
    assert raised.value.kind == kind
