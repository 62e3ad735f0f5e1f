"""Secrets are replaced before anything is stored: known values in every spelling, and shapes that are always secret."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar
from urllib.parse import quote, quote_plus

import msgspec

from recorder.events import Event
from recorder.secret_patterns import SHAPES, scanner

EventT = TypeVar("EventT", bound=Event)

MARK = "[redacted]"
_SECRET_NAME = re.compile(
    r"(API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|PRIVATE_?KEY|ACCESS_?KEY|AUTH)", re.IGNORECASE
)
_SHORTEST = 8
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+=.-]{20,}")  # a word that nobody would write


def secrets_of(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the values of the variables whose names say secret; shorter than 8 characters would hit plain words."""
    return frozenset(
        value for name, value in environment.items() if _SECRET_NAME.search(name) and len(value) >= _SHORTEST
    )


def given_secrets(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the values of an environment that somebody wrote for a program, where they are secret or look random."""
    random = frozenset(value for value in environment.values() if _RANDOM.fullmatch(value))
    return secrets_of({name: value for name, value in environment.items() if "{" not in value}) | random


class Redactor:
    """Replaces secrets in events, in texts and in the bytes of artifacts.

    Args:
        secrets: Values that must never be stored; they are found as they are, inside JSON text and URLs, and in base64.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = sorted({form for secret in secrets if secret for form in _forms(secret)}, key=len, reverse=True)
        self._known = re.compile(b"|".join(re.escape(form.encode()) for form in forms)) if forms else None
        self._scanner = scanner(forms)
        self._text = re.compile("|".join((*map(re.escape, forms), *SHAPES.values())), re.ASCII)

    def hits(self, payload: bytes) -> bool:
        """Return whether encoded text may hold a secret; cheap for every record."""
        return self._scanner.search(payload) is not None

    def clean(self, event: EventT) -> EventT:
        """Return the event with every secret replaced."""
        return map_text(event, self.clean_text)

    def clean_text(self, text: str) -> str:
        """Return a text with every secret replaced."""
        return self._text.sub(MARK, text)

    def clean_bytes(self, content: bytes) -> bytes:
        """Return an artifact with every secret replaced: text as text; in other bytes the known values only.

        A known value in a binary file is overwritten by as many bytes, so that the places in the file stay right.
        """
        if not self.hits(content):
            return content
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return self._known.sub(lambda found: b"*" * len(found[0]), content) if self._known else content
        return self.clean_text(text).encode()


def _forms(secret: str) -> Iterator[str]:
    """The spellings of a value: as it is, in JSON, in a URL, and in base64 wherever it begins there."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield quote(secret, safe="")
    yield quote_plus(secret)
    if len(secret) < _SHORTEST:
        return
    raw = secret.encode()
    for before in range(3):
        # Of the first and last groups only what does not depend on the bytes beside the value.
        encoded = base64.b64encode(bytes(before) + raw).decode().rstrip("=")
        start = -(-before * 8 // 6)
        core = encoded[start : (before + len(raw)) * 8 // 6]
        yield core
        yield core.translate(str.maketrans("+/", "-_"))


def map_text(event: EventT, function: Callable[[str], str]) -> EventT:
    """Return the event with a function applied to every text in it."""

    def apply(value: object) -> object:
        if isinstance(value, str):
            return function(value)
        if isinstance(value, dict):
            return {key: apply(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [apply(item) for item in value]
        return value

    return msgspec.convert(apply(msgspec.to_builtins(event)), type(event))
