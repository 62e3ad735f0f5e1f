"""Command-line arguments that several analytics commands share."""

import argparse

from analytics.tables.filters import FILTER_KEYS
from recorder.cli.command import Argument, ArgumentGroup, repeatable


def settings_option(help_text: str = "set an analysis parameter; see 'tables STORE list'") -> Argument:
    """Declare the option ``--set``, which sets an analysis parameter."""
    return repeatable("--set", "NAME=VALUE", help_text)


def filters(keys: tuple[str, ...] = FILTER_KEYS) -> ArgumentGroup:
    """Declare the options that filter rows by these keys."""
    return ArgumentGroup(
        "what is shown (no number changes; each may be given several times)",
        tuple(repeatable(f"--{key}", "NAME", f"only this {key}") for key in keys),
    )


def wanted(options: argparse.Namespace, keys: tuple[str, ...] = FILTER_KEYS) -> dict[str, list[str]]:
    """Return the values of the options of :func:`filters` by key."""
    return {key: getattr(options, key) for key in keys if getattr(options, key)}
