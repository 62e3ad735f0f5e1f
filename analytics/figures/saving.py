"""A figure as the bytes of a file: equal stores give equal bytes, on one version of matplotlib."""

import io
from typing import TYPE_CHECKING, Any

from analytics.figures.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "png")
# Neither the date nor the version of the program belongs to the picture.
_METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
# Where DejaVu Sans is not installed, Verdana is as wide.
_FONT, _FONTS = b"font-family: 'DejaVu Sans'", b"font-family: 'DejaVu Sans', Verdana, sans-serif"


def to_bytes(figure: "Figure", form: str) -> bytes:
    """Return a figure as ``svg`` or ``png``."""
    out = io.BytesIO()
    with styled():
        figure.savefig(out, format=form, metadata=_METADATA[form])
    data = out.getvalue()
    return data.replace(_FONT, _FONTS) if form == "svg" else data
