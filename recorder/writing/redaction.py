"""Replaces secrets before anything is stored: known values in every encoding, and known credential patterns."""

import base64
import codecs
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar
from urllib.parse import quote, quote_plus

import re2

from lhaw_record.recorder.events import Event
from lhaw_record.recorder.events.encoding import map_text
from lhaw_record.recorder.writing.secret_patterns import CONTEXTS, SHAPES, scanner

EventT = TypeVar("EventT", bound=Event)

MARK = "[redacted]"
# AUTH but not AUTHOR, TOKEN but not TOKENIZER, and no names of paths or methods.
_SECRET_NAME = re.compile(
    r"(?!.*_(?:SOCK|PATH|FILE|DIR|METHOD|TYPE|MODE)$)"
    r".*(?:API_?KEY|TOKEN(?!IZ)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|PRIVATE_?KEY|ACCESS_?KEY|AUTH(?!OR(?!IZ))"
    r"|(?:^|_)(?:KEY|PASS|PAT)$|_PWD$)",
    re.IGNORECASE,
)
_SHORTEST = 8
_READ_AHEAD = 32  # a choice: a private key becomes a mark
_WORD = re.compile(r"[A-Za-z0-9_+/=.-]{20,}")
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PRINTABLE = re.compile(rb"[\t\n\r -~]{12,}")  # text in binary files
_ONE_BYTE = "lhaw_record_one_byte"
codecs.register_error(_ONE_BYTE, lambda error: (b"\xff" * (error.end - error.start), error.end))  # type: ignore[attr-defined]
_CHANGE = re.compile(r"(?<=[A-Za-z])[0-9]|(?<=[0-9])[A-Za-z]|(?<=[a-z])[A-Z]")


def is_secret_name(name: str) -> bool:
    """Return whether a variable with this name holds a secret."""
    return _SECRET_NAME.match(name) is not None


def secrets_of(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the values of variables with secret names, except values under 8 characters, which may be words."""
    return frozenset(value for name, value in environment.items() if is_secret_name(name) and len(value) >= _SHORTEST)


def given_secrets(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the secrets in an environment written for a program: values with secret names or that look random."""
    random = frozenset(value for value in environment.values() if _looks_random(value))
    return secrets_of({name: value for name, value in environment.items() if "{" not in value}) | random


def _looks_random(value: str) -> bool:
    """Return whether a value looks random: the kind of character changes every five characters on average."""
    return bool(_WORD.fullmatch(value)) and (
        bool(_UUID.fullmatch(value)) or len(_CHANGE.findall(value)) * 5 >= len(value)
    )


class Redactor:
    """Replaces secrets in events, in texts and in the bytes of artifacts.

    Args:
        secrets: Values that must never be stored, found as plain text, in JSON, in URLs and in base64. Values under 8
            characters are ignored, because keys like "x" or "key" for local servers occur inside ordinary words.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = sorted(
            {form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret)}, key=len, reverse=True
        )
        self._known = re.compile(b"|".join(re.escape(form.encode()) for form in forms)) if forms else None
        self._forms = forms
        self._text = re.compile("|".join((*map(re.escape, forms), *SHAPES.values())), re.ASCII)

    @cached_property
    def _scanner(self) -> re2._Regexp:
        spelled = {form.encode(*encoding) for form in self._forms for encoding in (("utf-8",), ("latin-1", _ONE_BYTE))}
        return scanner(spelled)

    def hits(self, payload: bytes) -> bool:
        """Return whether encoded text may contain a secret."""
        return self._scanner.search(payload) is not None

    def clean(self, event: EventT) -> EventT:
        """Return the event with every secret replaced."""
        return map_text(event, self.clean_text)

    def clean_text(self, text: str, most: int | None = None) -> str:
        """Return a text with every secret replaced, or only its beginning, of at most so many characters."""
        if most is None:
            return self._replaced(text, lambda _: MARK)
        return self._replaced(text[: most * _READ_AHEAD], lambda _: MARK, most)[:most]

    def _replaced(self, text: str, written: Callable[[re.Match[str]], str], most: int = sys.maxsize) -> str:
        """Return what ``re.sub`` with the exact patterns would, which takes seconds for a megabyte.

        So they are tried only where the linear search, with one byte for each character, says that one may begin.
        What begins after ``most`` characters of the result is left as it is.
        """
        parts: list[str] = []
        done = at = length = 0
        searched = text.encode("latin-1", _ONE_BYTE)
        while (found := self._scanner.search(searched, at)) and length + found.start() - done < most:
            at = found.start()
            context = next((width for words, width in CONTEXTS.items() if text.startswith(words, at)), 0)
            starts = range(max(at, done), at + context + 1)
            secret = next(filter(None, (self._text.match(text, start) for start in starts)), None)
            if secret is None:
                at += 1
                continue
            parts += text[done : secret.start()], written(secret)
            length += sum(map(len, parts[-2:]))
            done = secret.end()
            at = max(at, done - max(CONTEXTS.values()))
        return "".join((*parts, text[done:]))

    def clean_bytes(self, content: bytes) -> bytes:
        """Return an artifact with every secret replaced, by equally many bytes in non-UTF-8 files to keep offsets."""
        if not self.hits(content):
            return content
        try:
            return self.clean_text(content.decode()).encode()
        except UnicodeDecodeError:
            if self._known:
                content = self._known.sub(lambda found: b"*" * len(found[0]), content)
            return _PRINTABLE.sub(self._overwritten, content)

    def _overwritten(self, run: re.Match[bytes]) -> bytes:
        return self._replaced(run[0].decode(), lambda found: "*" * len(found[0])).encode()


def _forms(secret: str) -> Iterator[str]:
    """Yield the encodings of a value: plain, JSON, URL, and base64 at each of the three alignments."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield quote(secret, safe="")
    yield quote_plus(secret)
    raw = secret.encode()
    for before in range(3):
        # In the first and last groups, only these characters are independent of the bytes around the value.
        encoded = base64.b64encode(bytes(before) + raw).decode().rstrip("=")
        start = -(-before * 8 // 6)
        core = encoded[start : (before + len(raw)) * 8 // 6]
        yield core
        yield core.translate(str.maketrans("+/", "-_"))
