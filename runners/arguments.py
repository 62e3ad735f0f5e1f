"""What numbers on command lines have to be."""

import argparse

HIGHEST_PORT = 65_535


def positive(text: str) -> int:
    """Return a number of an option; it is at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def port(text: str) -> int:
    """Return a TCP port of an option; 0 stands for a free one."""
    value = int(text)
    if not 0 <= value <= HIGHEST_PORT:
        raise argparse.ArgumentTypeError(
            f"{value} is not a TCP port; they go from 1 to {HIGHEST_PORT}, 0 takes a free one"
        )
    return value
