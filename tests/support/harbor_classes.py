"""Harbor's own classes, which need another Python than the project: one process for many questions."""

import json
import subprocess
from collections.abc import Iterable
from typing import Any

from tests.support.needs import HARBOR_PYTHON

_VALID = """
from harbor.models.trajectories.trajectory import Trajectory
def answer(document):
    try:
        Trajectory.model_validate(document)
    except ValueError as error:
        return str(error)
    return ""
"""
_POLICIES = """
from harbor.models.trial.error_policy import ERROR_POLICIES, policy_for
def answer(_):
    return {name: [policy_for(name).reward_valid, str(policy_for(name).cause)] for name in [*ERROR_POLICIES, "Odd"]}
"""
_PASS_AT_K = """
from harbor.models.trial.result import TrialResult
from harbor.utils.pass_at_k import compute_pass_at_k_by_evals
def answer(results):
    trials = [TrialResult.model_validate(each) for each in results]
    return [compute_pass_at_k_by_evals(trials), [trial.reward_valid for trial in trials]]
"""
_TASK = """
from harbor.models.task.task import Task
def answer(folder):
    task = Task(folder)
    instruction = task.step_instruction(task.config.steps[0].name) if task.has_steps else task.instruction
    return {"name": task.name, "instruction": instruction, "is_valid": Task.is_valid_dir(folder)}
"""
_STEPS = """
from types import SimpleNamespace
from harbor.trial.trial import Trial
from harbor.models.task.config import MultiStepRewardStrategy
def answer(question):
    strategy, steps = question
    results = [SimpleNamespace(verifier_result=SimpleNamespace(rewards=each)) for each in steps]
    config = SimpleNamespace(multi_step_reward_strategy=MultiStepRewardStrategy(strategy))
    trial = SimpleNamespace(task=SimpleNamespace(config=config), result=SimpleNamespace(step_results=results))
    trial._aggregate_step_rewards = lambda: Trial._aggregate_step_rewards(trial)
    return Trial._select_multi_step_reward(trial).rewards
"""
_JOBS = """
import importlib.util
from pathlib import Path
import harbor
spec = importlib.util.spec_from_file_location("scanner", Path(harbor.__file__).parent / "viewer" / "scanner.py")
scanner = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scanner)  # without the server around it, which needs a web framework
def answer(folder):
    found = scanner.JobScanner(Path(folder))
    shown = {}
    for job in found.list_jobs():
        if (result := found.get_job_result(job)) is not None and found.get_job_config(job) is not None:
            trials = [(found.get_trial_result(job, each), found.get_trial_config(job, each))
                      for each in found.list_trials(job)]
            assert result.n_total_trials == len(trials)
            shown[job] = [one.verifier_result.rewards for one, config in trials if config == one.config]
    return shown
"""
_MAIN = """
import json, sys
print(json.dumps([answer(each) for each in json.load(sys.stdin)]))
"""


def faults_of(documents: list[Any]) -> list[str]:
    """What Harbor says is wrong with each document, an empty text if it is valid."""
    return _asked(_VALID, documents)


def policies() -> dict[str, tuple[bool, str]]:
    """For each error: whether a reward beside it is valid, and whose fault it was."""
    (found,) = _asked(_POLICIES, [None])
    return found


def pass_at_k(results: list[Any]) -> tuple[dict[str, dict[str, float]], list[bool]]:
    """Pass@k by evaluation and k, and whether each reward is valid."""
    (found,) = _asked(_PASS_AT_K, [results])
    return found


def loaded_tasks(folders: Iterable[str]) -> list[dict[str, Any]]:
    """What Harbor reads from task folders: name, instruction, and whether the folder is a valid task."""
    return _asked(_TASK, list(folders))


def shown_jobs(folder: str) -> dict[str, list[dict[str, float]]]:
    """The rewards of the trials of each job that Harbor's viewer finds in a folder."""
    (found,) = _asked(_JOBS, [folder])
    return found


def step_rewards(questions: list[tuple[str, list[dict[str, float]]]]) -> list[dict[str, float]]:
    """The rewards of trials, from their ``multi_step_reward_strategy`` and the rewards of their graded steps."""
    return _asked(_STEPS, questions)


def _asked(code: str, questions: list[Any]) -> Any:
    command = [str(HARBOR_PYTHON), "-c", code + _MAIN]
    done = subprocess.run(command, input=json.dumps(questions), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
