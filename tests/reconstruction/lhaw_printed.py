"""What is printed of one LHAW benchmark, and the sizes that it is printed for."""

from lhaw_record.recorder.events.values import DIMENSIONS
from tests.reconstruction.printed_values import count, rows, values

CLASSES = ("outcome-critical", "divergent", "benign")
SIZES = {  # of each dimension: per removed segment for MCP-Atlas, per variant and dimension elsewhere
    "mcp_atlas": (52, 49, 49, 12),
    "tac": (51, 18, 43, 0),
    "swebench_pro": (70, 50, 23, 12),
}
ONE_SEGMENT = {"mcp_atlas": 38}
RUN = {("tac", "GPT-5.2"): (77, 85, 77), ("tac", "Gemini 3 Pro"): (63, 85, 63), ("tac", "Gemini 3 Flash"): (85, 72, 72)}
"""Variants that were run without ask_user, with it, and both ways, where the printed shares fit fewer than all."""
OTHER_RUNS = {("mcp_atlas", "Gemini 3 Pro")}
"""Whose table 5 holds another run than table 3: its cells are wishes that bind no sizes."""

Cell = tuple[str, tuple[str, ...]]
"""An ambiguity class and the dimensions of the removed segments."""


class Benchmark:
    """What is printed of a benchmark, and the sizes that it is printed for."""

    def __init__(self, name: str) -> None:
        self.name = name
        printed = rows("lhaw_overall", benchmark=name)
        self.models = list(dict.fromkeys(row["model"] for row in printed))
        self.n_tasks, self.n_variants = int(printed[0]["n_tasks"]), int(printed[0]["n_variants"])
        self.overall = values("lhaw_overall", "model", "metric", benchmark=name)
        by_class = rows("lhaw_pass3_by_class", benchmark=name)
        self.class_sizes = {row["ambiguity_class"]: int(row["n_variants"]) for row in by_class}
        self.by_class = values("lhaw_pass3_by_class", "ambiguity_class", "model", "metric", benchmark=name)
        self.by_dimension = values("lhaw_pass3_by_dimension", "dimension", "model", "metric", benchmark=name)
        self.progress_by_dimension = values("lhaw_ckpt_by_dimension", "dimension", "model", "metric", benchmark=name)
        self.by_segments = values("lhaw_by_segments_removed", "segments_removed", "model", "metric", benchmark=name)
        of_trials = {(row["model"],): int(row["n_trials"]) for row in rows("lhaw_failure_modes")}
        self.asking_trials = of_trials if name == "mcp_atlas" else {}
        self.is_per_segment = name in ONE_SEGMENT
        self.has_task_per_variant = self.n_tasks == self.n_variants
        self.cells = [(label, shape) for label in CLASSES for shape in self._shapes()]

    def run(self, model: str) -> tuple[int, int, int]:
        """Return how many variants a model was run on without ask_user, with it, and both ways."""
        return RUN.get((self.name, model), (self.n_variants,) * 3)

    def dimension_counts(self, model: str, dimension: str, size: int) -> tuple[int | None, int | None]:
        """Return how many pass without and with ask_user by table 5; None where no count is printed so."""
        under = count(self.by_dimension[dimension, model, "underspecified_pass3_pct"], size)
        gain = count(self.by_dimension[dimension, model, "pass3_gain_pp"], size)
        return under, None if under is None or gain is None else under + gain

    def is_complete(self, model: str) -> bool:
        """Whether a model was run on everything in both arms."""
        return (self.name, model) not in RUN

    def range_of(self, model: str, arm: int, size: int) -> tuple[int, int]:
        """Return how many of ``size`` variants are at least and at most in an arm: one of those of :meth:`run`."""
        return max(1, size - self.n_variants + self.run(model)[arm]), size

    def points(self, model: str, metric: str) -> int:
        """Return the count behind a printed share of table 3."""
        run, _, paired = self.run(model)
        size = {"baseline_pass3_pct": self.n_tasks, "underspecified_pass3_pct": run, "pass3_gain_pp": paired}[metric]
        found = count(self.overall[model, metric], size)
        assert found is not None, f"{self.name} {model} {metric} fits no count"
        return found

    def _shapes(self) -> list[tuple[str, ...]]:
        used = [name for name, size in zip(DIMENSIONS, SIZES[self.name], strict=True) if size]
        pairs = [(one, other) for place, one in enumerate(used) for other in used[place + (not self.is_per_segment) :]]
        return [*((one,) for one in used), *pairs]
