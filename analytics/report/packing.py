"""Data inside the page: JSON, compressed, in characters that no text inside it can break out of."""

import base64
import gzip
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from analytics.report.markup import Markup, tag


def packed(element_id: str, value: Any) -> Markup:
    """Return an inert element that holds a value; ``unpack`` in data/report/script/unpack.js reads it.

    Equal values give equal bytes: the compressed data carries no time.
    """
    data = gzip.compress(msgspec.json.encode(value), compresslevel=6, mtime=0)
    text = Markup(base64.b64encode(data).decode("ascii"))  # letters, digits, + / =: nothing that ends an element
    return tag("script", text, type="text/plain", id=element_id)


def columnar(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """Return rows as columns: a column of few different texts is a list of them with the place of each row's in it."""
    lists = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in columns]
    return {name: _column(values) for name, values in zip(columns, lists, strict=True)}


def _column(values: list[Any]) -> Any:
    places: dict[Any, int] = {}
    if not all(value is None or isinstance(value, str) for value in values):
        return values
    codes = [places.setdefault(value, len(places)) for value in values]
    return {"of": list(places), "at": codes} if len(places) * 2 < len(values) else values
