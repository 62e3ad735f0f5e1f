"""The style of all figures, and functions to save them.

Equal stores give equal bytes with the same version of matplotlib.
"""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, LINE, PAPER = "#1b1c1e", "#55595f", "#d3d6da", "#ffffff"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#b0578d", "#8a6d00", "#3d8fc4", "#5b5b5b", "#7a4fb5")
"""The palette of Okabe and Ito, with darker shades of the colours that are too pale for lines on white."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

_TEXT_POINTS = 8.5
"""The size of all text but the title of a figure."""

_SETTINGS: Any = {
    "axes.edgecolor": QUIET,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.labelcolor": INK,
    "axes.labelsize": _TEXT_POINTS,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": _TEXT_POINTS,
    "figure.facecolor": PAPER,
    "figure.titlesize": 10.5,
    "figure.titleweight": "bold",
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so every machine measures texts alike
    "font.size": _TEXT_POINTS,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "legend.fontsize": _TEXT_POINTS,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "pdf.fonttype": 42,  # whole TrueType fonts: what publishers ask for
    "savefig.dpi": 160,
    "svg.fonttype": "none",  # texts stay texts: searched, read aloud, coloured with the page
    "svg.hashsalt": "lhaw-record",  # else element ids are random
    "text.color": INK,
    "text.parse_math": False,  # a name with two dollars is a name
    "xtick.color": QUIET,
    "xtick.labelcolor": INK,
    "xtick.labelsize": _TEXT_POINTS,
    "ytick.color": QUIET,
    "ytick.labelcolor": INK,
    "ytick.labelsize": _TEXT_POINTS,
}
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]+")
_LONGEST_NAME = 28
_LETTER_POINTS, _LEGEND_MARK_POINTS = 5.6, 50


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style while drawing and saving, and restore matplotlib's settings afterwards.

    Warnings about characters that are missing from the font are silenced, because browsers use other fonts.
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
    """Create an empty figure with a grid of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left")
    grid = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(line) for line in grid]


def named(text: object, longest: int = _LONGEST_NAME) -> str:
    """Shorten a name to one line that does not start with ``_``, because matplotlib hides such names in legends."""
    clean = _UNPRINTABLE.sub(" ", str(text)).strip() or "(no name)"
    short = clean if len(clean) <= longest else clean[: longest - 1] + "…"
    return f"\N{ZERO WIDTH SPACE}{short}" if short.startswith("_") else short


def look(place: int) -> dict[str, Any]:
    """Return the colour and the marker of a series by its position."""
    return {"color": SERIES[place % len(SERIES)], "marker": MARKERS[(place // len(SERIES) + place) % len(MARKERS)]}


def legend(figure: "Figure", handles: Sequence[Any]) -> None:
    """Add one legend below all axes, in as many columns as fit."""
    if not handles:
        return
    widest_points = _LEGEND_MARK_POINTS + _LETTER_POINTS * max(len(handle.get_label()) for handle in handles)
    columns = max(1, int(figure.get_figwidth() * 72 / widest_points))
    figure.legend(handles=handles, loc="outside lower left", ncols=min(columns, len(handles)))


def note(axes: "Axes", text: str) -> None:
    """Write a line of text in a lighter colour below the title of the axes."""
    axes.annotate(
        text,
        (0, 1),
        (0, 3),
        xycoords="axes fraction",
        textcoords="offset points",
        color=QUIET,
        va="bottom",
    )


FORMATS = ("svg", "png", "pdf")
# Files must not depend on the date or on the version of matplotlib.
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
# Where DejaVu Sans is not installed, Verdana is as wide.
_FONT, _FONTS = b"font-family: 'DejaVu Sans'", b"font-family: 'DejaVu Sans', Verdana, sans-serif"


def to_bytes(figure: "Figure", form: str, *, has_paths: bool = False) -> bytes:
    """Encode a figure as ``svg``, ``png`` or ``pdf``, which embeds its fonts."""
    from matplotlib import rc_context

    out = io.BytesIO()
    with styled(), rc_context({"svg.fonttype": "path"} if has_paths else {}):
        figure.savefig(out, format=form, metadata=_METADATA[form])
    data = out.getvalue()
    return data.replace(_FONT, _FONTS) if form == "svg" else data
