"""One look for every figure: colours that colour-blind readers tell apart, markers beside them, quiet axes."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, LINE, PAPER = "#1b1c1e", "#55595f", "#d3d6da", "#ffffff"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#b0578d", "#8a6d00", "#3d8fc4", "#5b5b5b", "#7a4fb5")
"""Okabe and Ito's palette, darkened where a line on white would be too pale."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

_SETTINGS: Any = {
    "axes.edgecolor": QUIET,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "figure.facecolor": PAPER,
    "figure.titlesize": 10.5,
    "figure.titleweight": "bold",
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so every machine measures texts alike
    "font.size": 9,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "savefig.dpi": 160,
    "svg.fonttype": "none",  # texts stay texts: searched, read aloud, coloured with the page
    "svg.hashsalt": "lhaw-record",  # else element ids are random
    "text.color": INK,
    "text.parse_math": False,  # a name with two dollars is a name
    "xtick.color": QUIET,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.color": QUIET,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8.5,
}
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]+")
_LONGEST_NAME = 28
_LETTER_POINTS, _LEGEND_MARK_POINTS = 5.6, 50


@contextmanager
def styled() -> Iterator[None]:
    """Draw and save in this look; nothing of it stays behind.

    Characters that the font lacks are no reason to complain: the browser's fonts have them.
    """
    import logging
    import warnings

    from matplotlib import rc_context, rcdefaults

    with rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
        rcdefaults()
        with rc_context(_SETTINGS):
            yield


def canvas(rows: int, columns: int, *, title: str, size: tuple[float, float]) -> tuple["Figure", list[list["Axes"]]]:
    """Return an empty figure with a grid of axes.

    Args:
        rows: Of axes.
        columns: Of axes.
        title: Above everything.
        size: Width and height, inches.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left")
    grid = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(line) for line in grid]


def named(text: object, longest: int = _LONGEST_NAME) -> str:
    """Return a name as it is shown: one line, not too long, and never one that matplotlib takes for a private label."""
    clean = _UNPRINTABLE.sub(" ", str(text)).strip() or "(no name)"
    short = clean if len(clean) <= longest else clean[: longest - 1] + "…"
    return f"\N{ZERO WIDTH SPACE}{short}" if short.startswith("_") else short


def look(place: int) -> dict[str, Any]:
    """Return colour and marker of a series, told apart by both."""
    return {"color": SERIES[place % len(SERIES)], "marker": MARKERS[(place // len(SERIES) + place) % len(MARKERS)]}


def legend(figure: "Figure", handles: Sequence[Any]) -> None:
    """Put one legend under all axes, in as many columns as fit beside each other."""
    if not handles:
        return
    widest_points = _LEGEND_MARK_POINTS + _LETTER_POINTS * max(len(handle.get_label()) for handle in handles)
    columns = max(1, int(figure.get_figwidth() * 72 / widest_points))
    figure.legend(handles=handles, loc="outside lower left", ncols=min(columns, len(handles)))


def note(axes: "Axes", text: str) -> None:
    """Write a quiet line under the title of some axes."""
    axes.annotate(
        text,
        (0, 1),
        (0, 3),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=7.5,
        color=QUIET,
        va="bottom",
    )
