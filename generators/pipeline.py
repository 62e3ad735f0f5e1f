"""Makes a benchmark from tasks in one run: baseline, generation, validation, selection and evaluation.

Each phase skips the work that the store already holds, so the same command resumes after any interruption. All phases
belong to one experiment. Source: LHAW, figure 1.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from lhaw_record.generators.errors import GeneratorError
from lhaw_record.generators.generation.generate import Generation
from lhaw_record.generators.protocol import SourceTask
from lhaw_record.generators.selection import BenchmarkSelection, SelectionRequest, competent_tasks, select_benchmark
from lhaw_record.recorder.events.values import CONTROL_CONDITIONS
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.tables import Experiment, StoreSpec
from lhaw_record.runners.judging.judge_run import JudgeRun
from lhaw_record.runners.runs.executors.local import LocalExecutor
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.preparation import prepare_experiment, stored_index
from lhaw_record.runners.runs.run import run_experiment
from lhaw_record.runners.runs.scheduler import RunSummary

ROLES = ("evaluated", "classifier")


class PhaseStopped(GeneratorError):
    """A phase ended before all its work was done.

    ``outcome`` says why: interrupted, cost_limit, cost_unknown (a limit that cannot be enforced) or failed.
    """

    def __init__(self, phase: str, outcome: str, details: str) -> None:
        super().__init__(f"{phase} ended with work left ({outcome}): {details}; run the same command again to continue")
        self.outcome = outcome


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the pipeline.

    Attributes:
        root: The store.
        design: Agents, conditions and limits. The experiment and the selection take the design's name.
        path: The file that the design came from.
        tasks: The tasks to make variants of.
        generate: Runs generation over the given tasks and records it in the design's experiment.
        request: What to select.
        reporter: Shows the progress of trials.
        say: Receives a message about each phase.
        judge: Has a model judge which variants of the classifiers are new tasks; None leaves them unjudged.
        has_controls: Whether generation makes control variants; if so, the pipeline runs them too.
    """

    root: Path
    design: Experiment
    path: Path
    tasks: Sequence[SourceTask]
    generate: Callable[[Sequence[SourceTask]], Awaitable[Generation]]
    request: SelectionRequest
    reporter: Reporter
    say: Callable[[str], None]
    judge: Callable[[], Awaitable[JudgeRun]] | None = None
    has_controls: bool = False

    async def run(self) -> BenchmarkSelection:
        """Run the work of all phases that the store does not hold yet, and return the selection."""
        await self._check()
        await self._baseline()
        tasks = self._within_reach()
        await self._generation(tasks)
        await self._validation(tasks)
        await self._new_tasks()
        selection = await self._selection()
        await self._evaluation()
        if self.has_controls:
            await self._controls(tasks)
        return selection

    async def _check(self) -> None:
        """Check that agents of every role can run, before the first phase costs anything."""
        for role in ROLES:
            every = self._of(("full",), (role,), [source.task.task_id for source in self.tasks], None)
            await LocalExecutor().check(prepare_experiment(every, self.path), self.root, Reporter())

    async def _baseline(self) -> None:
        await self._trials("baseline", ("evaluated",), ("full",), [source.task.task_id for source in self.tasks], None)

    def _within_reach(self) -> list[SourceTask]:
        """Return the tasks that are within reach of the evaluated agents when nothing is removed."""
        verdicts = competent_tasks(
            self.root,
            self.request.benchmark,
            [source.task for source in self.tasks],
            reference_agents=[agent.name for agent in self.design.agents if agent.role == "evaluated"],
            trials=self.design.trials,
            experiment=self.design.name,
        )
        left_out = [verdict for verdict in verdicts if not verdict.is_chosen]
        for verdict in left_out:
            self.say(f"  left out: {verdict.task_id}: {verdict.reason}")
        if len(left_out) == len(verdicts):
            raise GeneratorError("no task is within reach of the evaluated agents; see the reasons above")
        self.say(f"{len(verdicts) - len(left_out)} of {len(verdicts)} tasks are within reach of the evaluated agents")
        chosen = {verdict.task_id for verdict in verdicts if verdict.is_chosen}
        return [source for source in self.tasks if source.task.task_id in chosen]

    async def _generation(self, tasks: Sequence[SourceTask]) -> None:
        self.say(f"generation: variants of {len(tasks)} tasks")
        generation = await self.generate(tasks)
        owed = len(generation.owed_extractions()) + len(generation.owed_variants())
        if owed:
            problem = generation.work.failures[0] if generation.work.failures else f"{owed} steps"
            raise PhaseStopped("generation", generation.work.stop_reason or "failed", problem)
        planned = generation.planned
        given_up = sum(generation.given_up(each) is not None for each in planned)
        lost = f", {given_up} given up because a check failed" if given_up else ""
        self.say(f"generation: {len(planned) - given_up} variants{lost}")

    async def _validation(self, tasks: Sequence[SourceTask]) -> None:
        made = StoreSpec(store=str(self.root.resolve()), experiment=self.design.name)
        task_ids = [source.task.task_id for source in tasks]
        await self._trials("validation", ("classifier",), ("underspecified",), task_ids, made)

    async def _new_tasks(self) -> None:
        """Judge the variants with which the classifiers always fail alike: some may have become another task."""
        if self.judge is None:
            return
        self.say("judging: which variants are new tasks")
        driver = await self.judge()
        if driver.tally.left:
            problem = driver.work.failures[0] if driver.work.failures else f"{driver.tally.left} verdicts"
            raise PhaseStopped("judging", driver.work.stop_reason or "failed", problem)

    async def _selection(self) -> BenchmarkSelection:
        selection = await select_benchmark(self.root, self.request, experiment_id=self.design.name)
        short = ", ".join(f"{name} {count}" for name, count in selection.shortfalls.items())
        self.say(
            f"selection: {len(selection.chosen)} of {len(selection.offered.candidates)} variants"
            + (f"; short by {short}, and no other class makes up for it" if short else "")
        )
        return selection

    async def _evaluation(self) -> None:
        """Run the selected variants under the design's conditions. If ``full`` is the only one, no variant is run."""
        chosen = StoreSpec(store=str(self.root.resolve()), selection=self.request.name)
        await self._trials("evaluation", ("evaluated",), self.design.conditions, None, chosen)

    async def _controls(self, tasks: Sequence[SourceTask]) -> None:
        """Run the evaluated agents on the control variants, which lack nothing that matters."""
        made = StoreSpec(store=str(self.root.resolve()), experiment=self.design.name)
        await self._trials("controls", ("evaluated",), CONTROL_CONDITIONS, [each.task.task_id for each in tasks], made)

    async def _trials(
        self,
        phase: str,
        roles: tuple[str, ...],
        conditions: tuple[str, ...],
        tasks: Sequence[str] | None,
        variants: StoreSpec | None,
    ) -> None:
        """Run the trials of one phase that are not finished yet."""
        experiment = self._of(conditions, roles, tasks, variants, has_own_conditions=phase == "evaluation")
        prepared = prepare_experiment(experiment, self.path)
        planned, index = prepared.plan.trials, stored_index(prepared, self.root)
        finished = sum(trial.trial_id in index.finished for trial in planned)
        self.say(f"{phase}: {len(planned)} trials" + (f", {finished} of them finished before" if finished else ""))
        if finished == len(planned):
            return
        summary = await run_experiment(prepared, self.root, self.reporter)
        if summary.left:
            raise PhaseStopped(phase, summary.outcome, _why(summary))

    def _of(
        self,
        conditions: tuple[str, ...],
        roles: tuple[str, ...],
        tasks: Sequence[str] | None,
        variants: StoreSpec | None,
        *,
        has_own_conditions: bool = False,
    ) -> Experiment:
        """Return the design reduced to the agents, conditions, tasks and variants of one phase.

        With ``has_own_conditions``, each agent keeps the conditions that the design gives it; otherwise all agents get
        ``conditions``.
        """
        benchmark = msgspec.structs.replace(
            self.design.benchmark,
            tasks=None if tasks is None else tuple(tasks),
            variants=None,
            variants_from=variants,
        )
        agents = tuple(
            msgspec.structs.replace(agent, conditions=agent.conditions if has_own_conditions else conditions)
            for agent in self.design.agents
            if agent.role in roles
        )
        return msgspec.structs.replace(self.design, benchmark=benchmark, agents=agents, conditions=conditions)


def check_design(design: Experiment, benchmark: str) -> None:
    """Check that a pipeline over tasks of ``benchmark`` can use a design."""
    if design.benchmark.name != benchmark:
        raise ExperimentError(
            f"the design is for benchmark {design.benchmark.name!r}, the tasks are from {benchmark!r}; name a file of "
            "that benchmark with --experiment"
        )
    for role in ROLES:
        if not any(agent.role == role for agent in design.agents):
            raise ExperimentError(
                f"the design has no agent of the role {role}, and a pipeline needs both roles; give it an [[agents]] "
                f'table with role = "{role}"'
            )


def _why(summary: RunSummary) -> str:
    failure = next((outcome.failure for outcome in summary.failures if outcome.failure), None)
    return f"{summary.left} trials" + (f", for example {failure.message.splitlines()[0]}" if failure else "")
