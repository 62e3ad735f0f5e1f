"""Resolves overlapping and repeated candidates. The one with the lower rank wins, then the longer one."""

import re
from collections.abc import Iterable, Sequence

from lhaw_record.generators.extraction.candidate import Candidate
from lhaw_record.generators.extraction.certainty import is_certain
from lhaw_record.generators.extraction.document import Document
from lhaw_record.generators.extraction.lexicon import Lexicon
from lhaw_record.generators.extraction.requests import Requests
from lhaw_record.generators.extraction.said_again import Statements
from lhaw_record.generators.spans import Spans
from lhaw_record.runners.base.text.normalization import normalize

_AROUND = "/'\"` "
_MOST = 200  # what names more is a collection of data


def chosen(document: Document, lexicon: Lexicon, found: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates to keep, without overlaps or repeats, in prompt order."""
    endings = {
        document.lower[each.start : each.end].rsplit(".", 1)[-1] for each in found if each.kind in ("file_name", "path")
    }
    kept: list[Candidate] = []
    taken = Spans()
    for candidate in sorted(found, key=lambda each: (each.rank, each.start - each.end, each.start)):
        if not taken.touches(candidate.start, candidate.end):
            taken.add(candidate.start, candidate.end)
            if candidate.is_sure and not _is_implied(document, candidate, endings, lexicon):
                kept.append(candidate)
    first = _first_of_each(document, sorted(kept, key=lambda each: each.start))
    if len(first) > _MOST:
        return []
    requests, statements = Requests(document, lexicon), Statements(document.text)
    certain = [each for each in first if is_certain(document, requests, statements, each)]
    return _without_repetitions(document, certain)


def _first_of_each(document: Document, found: Iterable[Candidate]) -> list[Candidate]:
    """Drop candidates that repeat an earlier one of the same kind."""
    said: set[tuple[str, str]] = set()
    first = []
    for candidate in found:
        key = candidate.kind, normalize(document.text[candidate.start : candidate.end])
        if key not in said:
            first.append(candidate)
        said.add(key)
    return first


def _without_repetitions(document: Document, kept: Sequence[Candidate]) -> list[Candidate]:
    said: set[str] = set()
    texts: list[Candidate] = []
    for candidate in kept:
        value = document.text[candidate.start : candidate.end]
        key = normalize(value).strip(_AROUND)
        if key in said or not re.search(r"\w", value):
            continue
        said.update([key, *(key[match.end() :] for match in re.finditer("/", key))])
        if candidate.kind == "names_list":
            said.update(part.strip(_AROUND) for part in re.split(r",|\band\b|\bor\b", normalize(value)))
        texts.append(candidate)
    return texts


def _is_implied(document: Document, candidate: Candidate, endings: set[str], lexicon: Lexicon) -> bool:
    """Return whether a file name already implies a format, as ``report.xlsx`` implies "an Excel file"."""
    if candidate.kind != "format":
        return False
    key = document.lower[candidate.start : candidate.end]
    return bool({key} & endings or lexicon.spoken_endings.get(key, frozenset()) & endings)
