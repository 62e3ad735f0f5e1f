"""What the simulated user says, as data: one sentence per segment, and a fixed deferral."""

import tomllib
from collections.abc import Sequence
from functools import cache
from typing import Any

from recorder.resources import data_path
from recorder.values import Segment


@cache
def _answers() -> dict[str, Any]:
    return tomllib.loads(data_path("user", "answers.toml").read_text(encoding="utf-8"))


def deferral() -> str:
    """Return the answer to a question that is about none of the removed segments."""
    return str(_answers()["deferral"])


def answer_with(segments: Sequence[Segment]) -> str:
    """Return an answer that gives the values of exactly these segments, or the deferral if there are none."""
    return " ".join(_sentence(segment) for segment in segments) or deferral()


def _sentence(segment: Segment) -> str:
    """Put the value in; a value that ends a sentence itself gets no second full stop. A decoy is owned up to."""
    template = str(_answers().get(segment.dimension, {}).get(segment.subdimension.lower(), _answers()["default"]))
    filled = template.replace("{value}", segment.value)
    sentence = filled[:-1] if segment.value.endswith((".", "!", "?")) else filled
    return sentence if segment.decoy is None else f"{_answers()['correction']} {sentence}"
