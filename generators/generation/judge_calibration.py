"""Measures a model as the gate's judge on the kept set of labelled rewritings, in a store, within a cost limit."""

from collections.abc import Callable
from functools import partial

from lhaw_record.generators.gate import ModelJudge
from lhaw_record.generators.gate.calibration import RULES, GateRates, Labelled, labelled, rates_of
from lhaw_record.generators.generation.paid_run import Callers, PaidRun, PaidSettings
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.models.llm_jobs.paid_work import PaidWork


class CalibrationSettings(PaidSettings, frozen=True, kw_only=True):
    """Which judge is measured on which sets, and how its calls are recorded and limited."""

    sets: tuple[str, ...]
    judge: ModelJudge


class JudgeCalibration(PaidRun):
    """One measurement of a judge. Replies that the store already has are not paid for again.

    Args:
        store: A store opened for writing.
        settings: What is measured.
        on_change: Called after every rewriting.
    """

    def __init__(
        self, store: Store, settings: CalibrationSettings, on_change: Callable[[PaidWork], None] = lambda _: None
    ) -> None:
        super().__init__(store, settings, on_change)
        self._settings = settings
        self._passes: dict[tuple[str, int], bool] = {}
        """By set and number: whether the judge lets the rewriting pass."""

    @property
    def left(self) -> int:
        """How many rewritings are not judged yet."""
        return sum(len(labelled(name)) for name in self._settings.sets) - len(self._passes)

    async def run(self) -> None:
        """Judge every rewriting of the sets."""
        jobs = (
            (f"{name} {number}", partial(self._judge, name, number, each))
            for name in self._settings.sets
            for number, each in enumerate(labelled(name))
        )
        await self.run_jobs("judge", jobs, lambda: self.left)

    def rates(self) -> list[GateRates]:
        """Return for each set how the rules, the model, and both do on what the model has judged."""
        found = []
        for name in self._settings.sets:
            judged = [
                (each, not each.problems(), self._passes[name, number])
                for number, each in enumerate(labelled(name))
                if (name, number) in self._passes
            ]
            judge = self._settings.judge.name
            found += [
                rates_of(name, RULES, [(each, by_rules) for each, by_rules, _ in judged]),
                rates_of(name, judge, [(each, by_model) for each, _, by_model in judged]),
                rates_of(name, f"{RULES} + {judge}", [(each, one and other) for each, one, other in judged]),
            ]
        return found

    async def _judge(self, name: str, number: int, each: Labelled, callers: Callers) -> None:
        caller_of = callers.of_judge(f"{name}-{number}")
        said = await self._settings.judge.judge(
            each.original, each.rewriting, each.removal, each.scene.files, caller_of
        )
        self._passes[name, number] = not said.findings
