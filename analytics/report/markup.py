"""HTML in Python that cannot forget to escape: text becomes markup only through one function."""

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

_VOID = frozenset({"br", "col", "hr", "input", "meta"})
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_NUMBER = re.compile(r"-|-?[\d,]+(\.\d+)?")


class Markup(str):
    """Text that is HTML already; everything else is escaped when it is put into a tag."""

    __slots__ = ()


def tag(name: str, *children: Any, **attributes: Any) -> Markup:
    """Return an element.

    Args:
        name: Of the element.
        children: Texts (escaped), markup (taken as it is), or sequences of both; None is left out.
        attributes: A trailing or inner ``_`` becomes ``-`` or goes; None and False leave an attribute out, True leaves
            it without a value.
    """
    shown = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    if name in _VOID:
        return Markup(f"<{name}{shown}>")
    return Markup(f"<{name}{shown}>{joined(children)}</{name}>")


def joined(children: Iterable[Any]) -> Markup:
    """Return children one after another, escaped where they are text."""
    return Markup("".join(_child(child) for child in children))


def grid(head: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str | None = None) -> Markup:
    """Return a table; numbers stand right, under their heading."""
    lines = [[_text(value) for value in row] for row in rows]
    columns = list(zip(*lines, strict=True)) or [()] * len(head)
    heads = [tag("th", each, scope="col", class_=_side(texts)) for each, texts in zip(head, columns, strict=True)]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption) if caption else None,
            tag("thead", tag("tr", heads)),
            tag("tbody", [tag("tr", [tag("td", text, class_=_side([text])) for text in line]) for line in lines]),
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption or head[0],
    )


def printable(text: str) -> str:
    """Return a text without characters that HTML does not allow or that turn the direction; each becomes U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)


def _text(value: Any) -> Any:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


def _side(texts: Iterable[Any]) -> str | None:
    """The class of a cell, or of a heading over several: numbers stand right."""
    return "number" if any(isinstance(text, str) and _NUMBER.fullmatch(text) for text in texts) else None


def _attribute(key: str, value: Any) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(printable(str(value)))}"'


def _child(child: Any) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int | float):
        return html.escape(printable(str(child)))
    return joined(child)
