"""The figures inside the page: inline SVG in the colours of the page, each with ids of its own."""

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from analytics.figures import FIGURES, draw, spec_of, to_bytes
from analytics.figures.style import INK, LINE, PAPER, QUIET, SERIES
from analytics.report.markup import Markup, joined, tag

if TYPE_CHECKING:
    import duckdb

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_DROPPED = (f"{_SVG}metadata", f"{_SVG}style")
_SMALLEST = 0.7
"""A picture that is wider than the page shrinks so far, and no further: then one moves it sideways."""
_COLOURS = {
    INK: "var(--ink)",
    QUIET: "var(--quiet)",
    LINE: "var(--line)",
    PAPER: "var(--paper)",
    **{colour: f"var(--series-{place})" for place, colour in enumerate(SERIES)},
}


def graphics(connection: "duckdb.DuckDBPyConnection") -> Markup:
    """Return every figure as inline SVG with its caption."""
    return joined(_figure(connection, name) for name in FIGURES)


def _figure(connection: "duckdb.DuckDBPyConnection", name: str) -> Markup:
    spec = spec_of(name)
    picture = inline(to_bytes(draw(connection, name), "svg"), name, spec.title)
    caption = tag("figcaption", tag("code", name), f" {spec.source}; drawn from {', '.join(spec.reads)}")
    frame = tag("div", picture, class_="picture", tabindex="0", role="region", aria_label=spec.title)
    return tag("figure", frame, caption, id=f"figure-{name}")


def inline(svg: bytes, name: str, title: str) -> Markup:
    """Return a picture for a page: named for readers who hear it, its colours those of the page, its ids its own."""
    ET.register_namespace("", _SVG.strip("{}"))
    root = ET.fromstring(svg)  # noqa: S314 - written by ourselves a moment ago
    used = set(re.findall(rb"#(m?[0-9a-zA-Z_.-]+)", svg))
    for parent in root.iter():
        for child in [child for child in parent if child.tag in _DROPPED]:
            parent.remove(child)
        _adapt(parent, name, used)
    width = float(root.attrib["width"].removesuffix("pt"))
    root.attrib |= {"role": "img", "aria-label": title, "stroke-linejoin": "round"}
    root.attrib["style"] = f"min-width: {_SMALLEST * width:.0f}pt"
    return Markup(ET.tostring(root, encoding="unicode"))


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
