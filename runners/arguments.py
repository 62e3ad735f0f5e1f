"""What numbers on command lines have to be."""

import argparse


def positive(text: str) -> int:
    """Return a number of an option; it is at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value
