"""Notebooks that reproduce a paper's tables and figures from the store: one for Jupyter, one for marimo."""

import json
from collections.abc import Iterable, Mapping

from lhaw_record.analytics.tables.filters import Filter
from lhaw_record.analytics.views.parameters import Setting

_INTRODUCTION = (
    "# Tables and figures\n\nThis notebook makes every table and figure of the folder again from the store. What is in "
    "them is in `paper.toml`; change it and run all cells."
)
_WRITE = 'paper.write(".")'


def notebook(
    store: str, tables: Iterable[str], figures: Iterable[str], only: Filter, settings: Mapping[str, Setting]
) -> str:
    """Return a Jupyter notebook for the paper's folder."""
    cells = [("markdown", _INTRODUCTION), ("code", _opening(store, only, settings))]
    cells += [("code", f"paper.tables[{name!r}]") for name in tables]
    cells += [("code", f"paper.figures[{name!r}]") for name in figures]
    cells += [("markdown", "Write the files of this folder again."), ("code", _WRITE)]
    return (
        json.dumps(
            {
                "cells": [_cell(place, kind, text) for place, (kind, text) in enumerate(cells)],
                "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
                "nbformat": 4,
                "nbformat_minor": 5,
            },
            indent=1,
        )
        + "\n"
    )


def marimo_app(
    store: str, tables: Iterable[str], figures: Iterable[str], only: Filter, settings: Mapping[str, Setting]
) -> str:
    """Return the same as a marimo notebook, which is a Python program."""
    cells = [("", _opening(store, only, settings), "paper")]
    cells += [("paper", f"paper.tables[{name!r}]", "") for name in tables]
    cells += [("paper", f"paper.figures[{name!r}]", "") for name in figures]
    cells += [("paper", _WRITE, "")]
    parts = [f'"""{_INTRODUCTION.splitlines()[-1]}"""\n\nimport marimo\n\napp = marimo.App()\n']
    for needs, code, gives in cells:
        body = "\n".join(f"    {line}" for line in code.splitlines())
        parts.append(f"\n@app.cell\ndef _({needs}):\n{body}\n    return{f' ({gives},)' if gives else ''}\n")
    return "\n".join([*parts, '\nif __name__ == "__main__":\n    app.run()\n'])


def _opening(store: str, only: Filter, settings: Mapping[str, Setting]) -> str:
    filters = "".join(f", {key}={list(values)!r}" for key, values in only.wanted.items() if values)
    opened = ", ".join([repr(store), *([repr(dict(settings))] if settings else [])])
    return f'import lhaw_record\n\npaper = lhaw_record.open({opened}).paper("paper.toml"{filters})'


def _cell(place: int, kind: str, text: str) -> dict[str, object]:
    cell: dict[str, object] = {
        "cell_type": kind,
        "id": f"cell-{place}",
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
