"""Command-line arguments that several analytics commands share."""

import argparse

from analytics.tables.filters import FILTER_KEYS
from recorder.cli.command import Argument, ArgumentGroup, repeatable


def settings_option(help_text: str = "set an analysis parameter; see 'tables STORE list'") -> Argument:
    """Declare the option ``--set``, which sets an analysis parameter."""
    return repeatable("--set", "NAME=VALUE", help_text)


FILTERS = ArgumentGroup(
    "what is shown (no number changes; each may be given several times)",
    tuple(repeatable(f"--{key}", "NAME", f"only rows of this {key}") for key in FILTER_KEYS),
)
"""The options that filter rows."""


def wanted(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the values of :data:`FILTERS` by key."""
    return {key: getattr(options, key) for key in FILTER_KEYS if getattr(options, key)}
