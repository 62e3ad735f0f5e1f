"""Renders HTML pages from the Jinja templates in ``data/``. Every value is escaped where it is inserted."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lhaw_record.recorder.resources import data_path

VIEWER = (
    *("elements.js", "theme.js"),
    *("vendor/markdown-it.umd.min.js", "vendor/prism-core.min.js"),
    *(f"vendor/prism-{name}.min.js" for name in ("markup", "clike", "javascript", "python", "bash", "json", "sql")),
    *(f"vendor/prism-{name}.min.js" for name in ("diff", "yaml", "toml")),
    *("state.js", "text.js", "difference.js", "requests.js", "trial.js", "walk.js"),
)
"""The scripts that show a trial, in the order in which they are loaded."""

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def render(template: str, **values: Any) -> str:
    """Render a template and return the page."""
    return _environment().get_template(template).render(values)


def joined(names: Sequence[str]) -> str:
    """Return scripts or style sheets of the pages as one."""
    return "\n".join(data_path("page", "static", *name.split("/")).read_text(encoding="utf-8") for name in names)


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(data_path()),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def _printable(value: Any) -> Any:
    """Write U+FFFD in place of characters that HTML forbids or that change the text direction. None becomes empty."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        return _UNPRINTABLE.sub("\ufffd", value)
    return value
