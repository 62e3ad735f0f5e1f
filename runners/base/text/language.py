"""Says in which language a text is, by its script and its most common words: enough to know which rules hold in it."""

import re
import unicodedata
from collections import Counter
from functools import cache, lru_cache

import msgspec

from lhaw_record.recorder.resources import data_path

ENGLISH = "en"
_LEAST_SHARE = 0.15  # file names and code are Latin in every language
_FEWEST_WORDS = 2
_WORD = re.compile(r"[^\W\d_]+")


class _Languages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The language of each script, the English name of each language, and the common words of those in Latin script."""

    scripts: dict[str, str]
    names: dict[str, str]
    words: dict[str, str]


@cache
def _languages() -> _Languages:
    return msgspec.toml.decode(data_path("user", "languages.toml").read_bytes(), type=_Languages)


@lru_cache(maxsize=1024)
def language_of(text: str) -> str:
    """Return the language code of a text, ``und`` for a script that is not known, and English where little is said."""
    scripts = Counter(unicodedata.name(each, "").split(" ", 1)[0] for each in text if each.isalpha())
    latin, known = scripts.pop("LATIN", 0), _languages()
    if scripts.total() > _LEAST_SHARE * (latin + scripts.total()):
        return next((code for script, code in known.scripts.items() if script in scripts), "und")
    said = Counter(_WORD.findall(unicodedata.normalize("NFC", text).lower()))
    counts = {code: sum(said[each] for each in words.split()) for code, words in known.words.items()}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] >= _FEWEST_WORDS and counts[best] > counts[ENGLISH] else ENGLISH


def language_name(code: str) -> str:
    """Return the English name of a language."""
    return _languages().names.get(code, "a language that is not known")
