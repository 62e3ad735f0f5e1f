"""Train with verifiers: the taskset and harness ``lhaw_verifiers``, in which every rollout is a recorded trial.

It runs in the environment of verifiers, which has another version of mcp, and imports nothing of lhaw-record. A rollout
is a run of the program ``lhaw-record`` on one variant, and its model is the rollout's endpoint. See docs/exports.md.
"""

# ruff: noqa: INP001 - a module that verifiers imports by its name

import json
import secrets
import tomllib
from pathlib import Path
from typing import Any

import tomli_w
import verifiers.v1 as vf

__all__ = ["LhawHarness", "LhawTaskset"]

_TRIAL = """
"$0" run rollout.toml --store "$1" --no-preflight >&2 && "$0" export training "$1" -o rows >&2 && cat rows/*.jsonl
"""


class LhawData(vf.TaskData):
    """A variant under one condition, and the experiment that a rollout of it is.

    Attributes:
        experiment: The experiment file, without agents.
        agent: What its agent has besides the model: strategy, persona, limits of thinking.
    """

    experiment: dict[str, Any]
    agent: dict[str, Any]


class LhawTaskConfig(vf.TaskConfig):
    """What a rollout is rewarded for.

    Attributes:
        question_cost: What a question costs, lambda.
    """

    question_cost: float = 0.05


class LhawTask(vf.Task[LhawData, vf.State, LhawTaskConfig]):
    """Scores a rollout by the row that ``lhaw-record export training`` writes of its trial."""

    @vf.reward
    async def net_success(self, trace: vf.Trace) -> float:
        """Success - lambda * questions."""
        row = trace.info["lhaw_record"]
        return row["rewards"]["success"] - self.config.question_cost * _question_count(row)

    @vf.reward(weight=0.0)
    async def ask_f1(self, trace: vf.Trace) -> dict[str, float]:
        """Ask-F1 of HiL-Bench, where the agent could ask and something was missing."""
        value = trace.info["lhaw_record"]["rewards"]["ask_f1"]
        return {} if value is None else {"ask_f1": value}

    @vf.metric
    async def recorded(self, trace: vf.Trace) -> dict[str, float]:
        """What else the record knows of the rollout."""
        row = trace.info["lhaw_record"]
        known = {
            name: row["rewards"][name] for name in ("success", "progress", "question_precision", "question_recall")
        }
        return {name: value for name, value in known.items() if value is not None} | {"questions": _question_count(row)}


class LhawTasksetConfig(vf.TasksetConfig):
    """What is trained on.

    Attributes:
        experiment: An experiment file with `[benchmark] variants`; its paths are absolute.
        task: What is rewarded.
    """

    experiment: Path = Path("experiment.toml")
    task: LhawTaskConfig = LhawTaskConfig()


class LhawTaskset(vf.Taskset[LhawTask, LhawTasksetConfig]):
    """The variants of an experiment file, each under each of its conditions."""

    def load(self) -> list[LhawTask]:
        """Return a task for each variant and condition; the prompt is what the trial itself sends."""
        experiment = tomllib.loads(self.config.experiment.read_text())
        agent, *others = experiment.pop("agents", [{}])
        variants = experiment["benchmark"].get("variants") if isinstance(experiment.get("benchmark"), dict) else None
        if not variants or others:
            message = f"{self.config.experiment}: [benchmark] needs the key 'variants', and [[agents]] may stand once"
            raise ValueError(message)
        tasks = []
        for condition in experiment["conditions"]:
            for variant in variants:
                benchmark = experiment["benchmark"] | {"variants": [variant]}
                data = LhawData(
                    idx=len(tasks),
                    name=f"{variant} {condition}",
                    prompt=f"{variant} under {condition}",
                    experiment=experiment | {"conditions": [condition], "benchmark": benchmark, "trials": 1},
                    agent=agent,
                )
                tasks.append(LhawTask(data, self.config.task))
        return tasks


class LhawHarnessConfig(vf.HarnessConfig):
    """Where rollouts are recorded, and by what.

    Attributes:
        store: A folder; each rollout is a store in it, by its trace's id.
        program: The program of lhaw-record's own environment.
        version_file: A file in which the trainer writes the policy's version; None takes the model's name for it.
    """

    store: Path = Path("rollouts")
    program: str = "lhaw-record"
    version_file: Path | None = None


class LhawHarness(vf.Harness[LhawHarnessConfig]):
    """Runs one trial, whose tools, simulated user, sandbox and grader are lhaw-record's, on the rollout's endpoint."""

    NEEDS_CONTAINER = False  # the trial has a sandbox of its own
    EXECUTES_CODE = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: LhawData,
    ) -> vf.ProgramResult:
        """Run and record the trial; where it is missing data the rollout is an error, never a reward of 0."""
        version = self.config.version_file.read_text().strip() if self.config.version_file else ctx.model
        parameters = ctx.sampling.model_dump(exclude_none=True)
        effort = parameters.pop("reasoning_effort", None)
        agent = data.agent | {
            "name": f"policy {version}",
            "model": ctx.model,
            "api_base": endpoint,
            "api_key_env": "LHAW_RECORD_ROLLOUT_KEY",
            "parameters": data.agent.get("parameters", {}) | parameters,
            **({} if effort is None else {"effort": effort}),
        }
        experiment = data.experiment | {
            "name": f"rollout-{trace.id}",
            "seeds": [secrets.randbits(31)],  # rollouts of a group are different trials
            "retry": data.experiment.get("retry", {}) | {"max_attempts": 1},  # verifiers retries rollouts itself
            "agents": [agent],
        }
        store = str((self.config.store / trace.id).absolute())
        env = self.config.resolved_env | {"LHAW_RECORD_ROLLOUT_KEY": secret}
        await runtime.write("rollout.toml", tomli_w.dumps(experiment).encode())
        result = await runtime.run_program(["sh", "-c", _TRIAL, self.config.program, store], env)
        if result.exit_code == 0:
            trace.info["lhaw_record"] = json.loads(result.stdout) | {"store": store, "policy_version": version}
        return result


def _question_count(row: dict[str, Any]) -> int:
    return sum(step["question_count"] for step in row["steps"])
