"""Command-line arguments that several analytics commands share."""

import argparse
from collections.abc import Callable
from pathlib import Path

from lhaw_record.analytics.tables.filters import FILTER_KEYS
from lhaw_record.recorder.cli.command import Argument, ArgumentGroup, repeatable
from lhaw_record.recorder.errors import RecorderError

_NAMED_IN = {"medium": "int_agent_arms"}
"""The view that has a key which the trials lack, by key."""


def settings_option(help_text: str = "set an analysis parameter; see 'tables STORE list'") -> Argument:
    """Declare the option ``--set``, which sets an analysis parameter."""
    return repeatable("--set", "NAME=VALUE", help_text)


def filters(keys: tuple[str, ...] = FILTER_KEYS) -> ArgumentGroup:
    """Declare the options that filter rows by these keys."""
    return ArgumentGroup(
        "what is shown (filters do not change numbers; each filter may be given several times)",
        tuple(
            repeatable(f"--{key}", "NAME", f"only this {key}", completer=_known_measures)
            if key == "measure"
            else repeatable(f"--{key}", "NAME", f"only this {key}", completer=names_in_store(key, _NAMED_IN.get(key)))
            for key in keys
        ),
    )


def wanted(options: argparse.Namespace, keys: tuple[str, ...] = FILTER_KEYS) -> dict[str, list[str]]:
    """Return the values of the options of :func:`filters` by key."""
    return {key: getattr(options, key) for key in keys if getattr(options, key)}


def names_in_store(column: str, view: str | None = None) -> Callable[..., list[str]]:
    """Return a function that completes an option with the names in a column of a view. It fetches no shared store."""
    view = view or "int_trials_evaluated"

    def names(parsed_args: argparse.Namespace, **_: object) -> list[str]:
        from lhaw_record.analytics.views.store import open as open_store

        store = getattr(parsed_args, "store", None)
        if not isinstance(store, Path):
            return []
        try:
            connection = open_store(store, only={view})
        except RecorderError:  # there is no store yet
            return []
        try:
            query = f"select distinct {column}::varchar from {view} where {column} is not null order by all"  # noqa: S608
            return [name for (name,) in connection.execute(query).fetchall()]
        finally:
            connection.close()

    return names


def _known_measures(**_: object) -> list[str]:
    from lhaw_record.analytics.tables.labels import measure_meanings

    return list(measure_meanings())
