"""Prepare the figures of the report as inline SVG, with the page's colours and unique ids."""

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import msgspec
from markupsafe import Markup

from lhaw_record.analytics.figures import FIGURES, NothingToDraw, paint, spec_of, to_bytes
from lhaw_record.analytics.figures.drawing import INK, LINE, PAPER, QUIET, SERIES

if TYPE_CHECKING:
    import duckdb

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_DROPPED = (f"{_SVG}metadata", f"{_SVG}style")
_COLOURS = {
    INK: "var(--ink)",
    QUIET: "var(--quiet)",
    LINE: "var(--line)",
    PAPER: "var(--paper)",
    **{colour: f"var(--series-{place})" for place, colour in enumerate(SERIES)},
}


class Graphic(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the report. ``reads`` names its views; ``picture`` is inline SVG.

    If there is no picture, ``reason`` says why.
    """

    name: str
    title: str
    source: str
    reads: tuple[str, ...]
    picture: Markup | None
    reason: str = ""


def graphics(connection: "duckdb.DuckDBPyConnection") -> list[Graphic]:
    """Draw every figure that has data as inline SVG."""
    return [_graphic(connection, name) for name in FIGURES]


def _graphic(connection: "duckdb.DuckDBPyConnection", name: str) -> Graphic:
    spec = spec_of(name)
    graphic = Graphic(name=name, title=spec.title, source=spec.source, reads=spec.reads, picture=None)
    try:
        drawn = paint(connection, name)
    except NothingToDraw as reason:
        return msgspec.structs.replace(graphic, reason=str(reason))
    return msgspec.structs.replace(graphic, picture=inline(to_bytes(drawn, "svg"), name, spec.title))


def inline(svg: bytes, name: str, title: str) -> Markup:
    """Adapt an SVG picture to the page: add a screen reader label, use the page's colours, and make ids unique.

    ``--width`` is its width in points. The style sheet scales all pictures by one factor, so that text has one size.
    """
    ET.register_namespace("", _SVG.strip("{}"))
    root = ET.fromstring(svg)  # noqa: S314 - our own output
    used = set(re.findall(rb"#(m?[0-9a-zA-Z_.-]+)", svg))
    for parent in root.iter():
        for child in [child for child in parent if child.tag in _DROPPED]:
            parent.remove(child)
        _adapt(parent, name, used)
    width = float(root.attrib["width"].removesuffix("pt"))
    root.attrib |= {"role": "img", "aria-label": title, "stroke-linejoin": "round"}
    root.attrib["style"] = f"--width: {width:.0f}pt"
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704 - serialised XML


def _adapt(part: ET.Element, name: str, used: set[bytes]) -> None:
    identity = part.attrib.pop("id", None)
    if identity is not None and identity.encode() in used:
        part.set("id", f"{name}-{identity}")
    if _LINK in part.attrib:
        part.set("href", f"#{name}-{part.attrib.pop(_LINK)[1:]}")  # the prefixed name means nothing in HTML
    if "clip-path" in part.attrib:
        part.set("clip-path", part.attrib["clip-path"].replace("#", f"#{name}-"))
    if "style" in part.attrib:
        part.set("style", re.sub(r"#[0-9a-f]{6}", lambda found: _COLOURS.get(found[0], found[0]), part.attrib["style"]))
