"""The chart of a series of sizes: time and memory against the number of events, with the budgets marked."""

from collections.abc import Callable
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.scale_figures import BUDGETS, OPERATIONS, Budget, Measured, Scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "verify": "#d55e00",
    "tables": "#0072b2",
    "actions": "#7b3294",
    "mean": "#009e73",
    "show": "#777777",
    "fetch": "#c2185b",
}
INK = "#333333"
STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "scale",  # the same figures give the same file
}
EVENT_TICKS = {1_000: "1k", 10_000: "10k", 100_000: "100k", 1_000_000: "1M", 10_000_000: "10M"}
TIME_TICKS = {0.01: "10 ms", 0.1: "100 ms", 1: "1 s", 10: "10 s", 100: "100 s", 1000: "1000 s"}
MEMORY_TICKS = {
    64: "64 MiB",
    128: "128 MiB",
    256: "256 MiB",
    512: "512 MiB",
    1024: "1 GiB",
    2048: "2 GiB",
    4096: "4 GiB",
}
LABEL_GAP = 0.042  # of the height of a panel: what a line of text needs


def draw(scale: Scale, directory: Path) -> None:
    """Write ``scale.svg`` and ``scale.png`` into a directory."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(12, 5.2), facecolor="white")
        times, memory = figure.subplots(1, 2)
        figure.subplots_adjust(left=0.065, right=0.84, bottom=0.11, top=0.86, wspace=0.68)
        figure.suptitle("Reading a store: cold processes, the store's files not in the page cache", x=0.065, ha="left")
        _panel(times, scale, lambda one: one.wall_s, "wall time", TIME_TICKS, (0.01, 1000))
        _panel(memory, scale, _peak_mib, "peak memory of the process", MEMORY_TICKS, (64, 6000))
        for budget in BUDGETS:
            text = f"{budget.wall_s:g} s" if budget.wall_s >= 1 else f"{budget.wall_s * 1e3:g} ms"
            _mark(times, budget, budget.wall_s, f"budget {text}")
            if budget.peak_bytes:
                _mark(memory, budget, budget.peak_bytes / (1 << 20), f"budget {budget.peak_bytes / (1 << 30):g} GiB")
        figure.savefig(directory / "scale.svg", metadata={"Date": None})
        figure.savefig(directory / "scale.png", dpi=150)


def _peak_mib(one: Measured) -> float | None:
    return None if one.peak_bytes is None else one.peak_bytes / (1 << 20)


def _panel(
    axes: "Axes",
    scale: Scale,
    value: Callable[[Measured], float | None],
    title: str,
    ticks: dict[float, str],
    limits: tuple[float, float],
) -> None:
    """Draw one line for each operation, its name at its right end."""
    axes.set(xscale="log", yscale="log", ylim=limits, xlabel="events in the store")
    axes.set_title(title, loc="left", fontsize=10)
    ends: dict[str, tuple[float, float]] = {}
    for operation, colour in COLOURS.items():
        found = [(size.events, size.find(operation, "dropped")) for size in scale.sizes]
        points = [(events, height) for events, one in found if one is not None and (height := value(one)) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=4, linewidth=1.6)
            ends[operation] = points[-1]
    _name_lines(axes, ends, limits)
    low, high = axes.get_xlim()
    axes.set_xticks([tick for tick in EVENT_TICKS if low <= tick <= high])
    axes.set_xticklabels([EVENT_TICKS[tick] for tick in EVENT_TICKS if low <= tick <= high])
    axes.set_yticks(list(ticks), labels=list(ticks.values()))
    axes.set_ylim(limits)
    axes.minorticks_off()
    axes.grid(color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)


def _name_lines(axes: "Axes", ends: dict[str, tuple[float, float]], limits: tuple[float, float]) -> None:
    """Write each name beside the end of its line, pushed up where it would stand on the one below."""
    span = log(limits[1] / limits[0])
    wanted = sorted((log(height / limits[0]) / span, operation) for operation, (_, height) in ends.items())
    heights = [height for height, _ in wanted]
    for index in range(1, len(heights)):
        heights[index] = max(heights[index], heights[index - 1] + LABEL_GAP)
    for height, (_, operation) in zip(heights, wanted, strict=True):
        axes.annotate(
            OPERATIONS[operation],
            (1.02, height),
            xycoords="axes fraction",
            color=COLOURS[operation],
            va="center",
            fontsize=9.5,
        )


def _mark(axes: "Axes", budget: Budget, limit: float, text: str) -> None:
    """Mark a budget: a bar over the size that it is for, or a line where it is for every size."""
    colour = COLOURS[budget.operation]
    if budget.events is None:
        axes.axhline(limit, color=colour, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(text, (0.01, limit), xycoords=("axes fraction", "data"), color=colour, fontsize=8.5, va="bottom")
    else:
        axes.plot([budget.events], [limit], color=colour, marker="_", markersize=22, markeredgewidth=2.2)
        is_largest = budget.events == max(EVENT_TICKS)  # the lines end above it, and the names of lines beside it
        axes.annotate(
            text,
            (budget.events, limit),
            xytext=(11, -5) if is_largest else (-11, 4),
            textcoords="offset points",
            color=colour,
            fontsize=8.5,
            ha="right" if is_largest else "left",
            va="top" if is_largest else "bottom",
        )
