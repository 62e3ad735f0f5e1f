"""Harbor's own rule for the rewards of several steps, beside ours."""

import json
from itertools import product

import pytest

from lhaw_record.runners.environments.benchmarks.harbor import read_task
from lhaw_record.runners.environments.benchmarks.harbor.container import HarborVerdict
from lhaw_record.runners.environments.benchmarks.harbor.environment import grade_of
from tests.runners.environments.benchmarks.harbor.test_steps import write_steps
from tests.support.harbor_classes import step_rewards
from tests.support.needs import needs

ONE, TWO = ({"a": 1.0, "b": 0.5}, {"b": 1.0}, {"reward": 0.25}, {"a": -1.0}), ({"c": 1.0}, {"b": 1.0, "c": 0.0}, None)


@needs("harbor")
def test_harbor_reports_the_same_rewards(tmp_path):
    """Each by its name, as the mean over the graded steps, or of the last; the final score is the sum of them."""
    cases = list(product(("mean", "final"), ONE, TWO))
    questions = [(strategy, [one] if two is None else [one, two]) for strategy, one, two in cases]
    for number, ((strategy, steps), reported) in enumerate(zip(questions, step_rewards(questions), strict=True)):
        declared = [_name(step, name) for step, rewards in zip(("one", "two"), steps, strict=False) for name in rewards]
        lines = [f'[[checkpoints]]\ncheckpoint_id = "{name}"\nlabel = "x"\n' for name in declared]
        top = f'multi_step_reward_strategy = "{strategy}"\n'
        task = read_task(write_steps(tmp_path / str(number), top=top, **{"checkpoints.toml": "".join(lines)}))
        values = [reward for rewards in steps for reward in rewards.values()]
        found = HarborVerdict(rewards=dict(zip(declared, values, strict=True)), stdout=b"", step_rewards=tuple(steps))
        grade = grade_of(task, found)
        (raw,) = (each.content for each in grade.artifacts if each.name == "rewards.json")
        assert json.loads(raw) == pytest.approx(reported)
        if min(values) >= 0:
            assert grade.final_score == pytest.approx(sum(reported.values()))


def _name(step, reward):
    return step if reward == "reward" else f"{step}/{reward}"
