"""What all figures share: their style and specification, and functions that select rows and draw values with intervals.

Equal stores give equal bytes with the same version of matplotlib.
"""

import io
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from lhaw_record.analytics.views.build_order import query_of
from lhaw_record.analytics.views.rows import rows_of

if TYPE_CHECKING:
    import duckdb
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, LINE, PAPER = "#1b1c1e", "#55595f", "#d3d6da", "#ffffff"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#b0578d", "#8a6d00", "#3d8fc4", "#5b5b5b", "#7a4fb5")
"""The palette of Okabe and Ito, with darker shades of the colours that are too pale for lines on white."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

_TEXT_POINTS = 8.5
"""The size of all text except figure titles."""

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
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so text widths are the same on every machine
    "font.size": _TEXT_POINTS,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "legend.fontsize": _TEXT_POINTS,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "pdf.fonttype": 42,  # publishers require whole TrueType fonts
    "savefig.dpi": 160,
    "svg.fonttype": "none",  # keep text as text, for search, screen readers and page colours
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
    """Shorten a name to one line without a leading ``_``, because matplotlib hides such names in legends."""
    clean = _UNPRINTABLE.sub(" ", str(text)).strip() or "(no name)"
    short = clean if len(clean) <= longest else clean[: longest - 1] + "…"
    return f"\N{ZERO WIDTH SPACE}{short}" if short.startswith("_") else short


def look(place: int) -> dict[str, Any]:
    """Return the colour and the marker of a series by its position."""
    return {"color": SERIES[place % len(SERIES)], "marker": MARKERS[(place // len(SERIES) + place) % len(MARKERS)]}


_BAND = "simultaneous band"
_ALLOWS = "The band covers the whole curve at once: a claim about it must be true for every curve in the band."


def legend(figure: "Figure", handles: Sequence[Any]) -> None:
    """Add one legend below all axes, in as many columns as fit; if curves have bands, say how to read them."""
    if not handles:
        return
    handles = sorted(handles, key=lambda handle: bool(handle.get_label() == _BAND))
    has_band = handles[-1].get_label() == _BAND
    widest_points = _LEGEND_MARK_POINTS + _LETTER_POINTS * max(len(handle.get_label()) for handle in handles)
    columns = max(1, int(figure.get_figwidth() * 72 / widest_points))
    figure.legend(
        handles=handles,
        loc="outside lower left",
        ncols=min(columns, len(handles)),
        title=textwrap.fill(_ALLOWS, int(figure.get_figwidth() * 72 / _LETTER_POINTS)) if has_band else None,
        title_fontsize=_TEXT_POINTS,
        alignment="left",
    )


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
# If DejaVu Sans is not installed, Verdana has the same width.
_FONT, _FONTS = b"font-family: 'DejaVu Sans'", b"font-family: 'DejaVu Sans', Verdana, sans-serif"


def to_bytes(figure: "Figure", form: str, *, has_paths: bool = False) -> bytes:
    """Encode a figure as ``svg``, ``png`` or ``pdf``, which embeds its fonts."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    out = io.BytesIO()
    with styled(), rc_context({"svg.fonttype": "path"} if has_paths else {}):
        # savefig would draw an SVG picture twice
        save: Any = FigureCanvasSVG(figure).print_svg if form == "svg" else partial(figure.savefig, format=form)
        save(out, metadata=_METADATA[form])
    data = out.getvalue()
    return data.replace(_FONT, _FONTS) if form == "svg" else data


Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]


class NothingToDraw(Exception):
    """The tables have no rows for the figure, which shows this message instead."""


class FigureSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The specification of one figure.

    ``reads`` names the views that the figure needs. ``draw`` receives a mapping from each of these names to the rows of
    the view. ``pooled_<view>`` holds the rows of the agent ``all``, which agent filters do not remove, and
    ``parameters`` one row with the analysis parameters.
    """

    name: str
    title: str
    source: str
    reads: tuple[str, ...]
    draw: Callable[["FigureSpec", Rows], "Figure"]


def read(connection: "duckdb.DuckDBPyConnection", name: str) -> list[Row]:
    """Return the rows of a view in a fixed order. The connection needs only the views that this view reads."""
    return rows_of(connection, f"from ({query_of(name)}) order by all")


def blank(spec: FigureSpec, reason: str) -> "Figure":
    """Draw a placeholder for a figure without data, with its title and the reason."""
    figure, ((axes,),) = canvas(1, 1, title=spec.title, size=(7, 1.2))
    axes.set_axis_off()
    axes.text(0, 0.5, reason, color=QUIET, ha="left", va="center", transform=axes.transAxes)
    return figure


CLASSES = ("outcome-critical", "divergent", "benign")


def pick(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """Return the rows that have the given values in the given columns."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def values_of(rows: Iterable[Row], column: str, order: Sequence[str] = ()) -> list[str]:
    """Return the distinct values of a column except ``all``: first the values in ``order``, then the others by name."""
    found = {str(row[column]) for row in rows} - {"all"}
    return [each for each in order if each in found] + sorted(found - set(order))


def has_value(row: Row) -> bool:
    """Return whether a row has a value that can be drawn."""
    return row["value"] is not None


def bounds(rows: Sequence[Row], scale: float = 1.0) -> list[list[float]]:
    """Return how far each interval extends below and above its value (matplotlib's error bars), 0 if there is none."""
    below = [0.0 if row["low"] is None else max(0.0, row["value"] - row["low"]) * scale for row in rows]
    above = [0.0 if row["high"] is None else max(0.0, row["high"] - row["value"]) * scale for row in rows]
    return [below, above]


def line(axes: "Axes", places: Sequence[float], rows: Sequence[Row], **look: Any) -> Any:
    """Draw a line of values with error bars, and return its handle for a legend."""
    return axes.errorbar(
        places, [row["value"] for row in rows], yerr=bounds(rows), capsize=2, elinewidth=0.9, capthick=0.9, **look
    )


def curve(
    axes: "Axes",
    rows: Sequence[Row],
    label: str,
    handles: dict[str, Any],
    drawn: dict[str, Any],
    shift: float,
    *,
    has_band: bool,
) -> None:
    """Draw the injections of one curve, shifted sideways a little so that intervals of curves do not overlap."""
    points = [
        (int(row["condition"][7:]), row) for row in rows if row["condition"].startswith("inject_") and has_value(row)
    ]
    points.sort(key=lambda point: point[0])
    if points:
        places = [percent + shift for percent, _ in points]
        handles[label] = line(axes, places, [row for _, row in points], label=label, **drawn)
        banded = [(percent, row) for percent, row in points if row["band_low"] is not None and has_band]
        shaded = axes.fill_between(
            [percent + shift for percent, _ in banded],
            [row["band_low"] for _, row in banded],
            [row["band_high"] for _, row in banded],
            color=drawn["color"],
            alpha=0.12,
            linewidth=0,
            label=_BAND,
        )
        if banded:
            handles[_BAND] = shaded


def pass_name(rows: Rows) -> str:
    """Return the label of pass@k with the chosen k, for example ``pass@3``."""
    return f"pass@{rows['parameters'][0]['k']}"


def span(counts: Iterable[int]) -> str:
    """Format the range of the counts: one number if all are equal, else ``smallest to largest``."""
    found = sorted(set(counts))
    return "0" if not found else str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"
