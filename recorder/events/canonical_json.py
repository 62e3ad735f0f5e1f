"""Canonical JSON and its digests. Equal values give equal bytes on every machine."""

import hashlib
from typing import Any

import msgspec

_encoder = msgspec.json.Encoder(order="sorted")  # sorts struct fields too, unlike "deterministic"


def canonical_json(value: Any) -> bytes:
    """Encode a value as JSON with sorted keys and no spaces."""
    return _encoder.encode(value)


def digest(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def short_digest(value: Any) -> str:
    """Return the first 128 bits of :func:`digest` as 32 hexadecimal digits."""
    return digest(value)[:32]
