"""The trials as data that both sides run: taken from our own plan, so that every text of the peer's is one of ours."""

from typing import Any

import msgspec

from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.base.conversation.injection import injection_action
from lhaw_record.runners.experiment.prompts import InjectionTemplates
from tests.support.toy_benchmark import ToyBenchmark, ToyExperiment, Workload


def described(workload: Workload) -> dict[str, Any]:
    """Return the workload and its trials: id, opening messages, and what the trial is, down to its injected message.

    A trial acts ``workload.actions`` times whatever happens, so that is the budget B of its unit.
    """
    system = ToyBenchmark(workload).system_prompt()
    templates = InjectionTemplates()
    return {
        "workload": msgspec.to_builtins(workload),
        "trials": [_trial(trial, system, templates, workload) for trial in ToyExperiment(workload).plan.trials],
    }


def _trial(trial: PlannedTrial, system: str, templates: InjectionTemplates, workload: Workload) -> dict[str, Any]:
    variant = trial.variant if trial.key.prompt_state != "full" else None
    metadata = {
        "condition": trial.condition,
        "task_id": trial.task.task_id,
        "variant_id": variant.variant_id if variant else None,
        "trial_index": trial.trial_index,
        "seed": trial.seed,
        "inject_after_action": None,
        "inject_message": None,
    }
    if trial.inject_percent is not None and variant:
        metadata["inject_after_action"] = injection_action(workload.actions, trial.inject_percent)
        metadata["inject_message"] = templates.message(variant.segments)
    prompt = variant.prompt if variant else trial.task.prompt
    return {"id": trial.trial_id, "system": system, "prompt": prompt, "metadata": metadata}
