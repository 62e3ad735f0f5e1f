"""Finds what a rewriting lost beside the removed values, or put into another order."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, starmap

from lhaw_record.generators.gate.facts import LIST_NUMBER, TextFact, facts_of, fold, lost, words
from lhaw_record.generators.gate.natural import INLINE_FIELD, left_over
from lhaw_record.generators.gate.recoverability import names_with
from lhaw_record.generators.prompts.diff import hunks
from lhaw_record.generators.prompts.occurrences import SearchablePrompt, Span, Spans
from lhaw_record.generators.protocol import Removal
from lhaw_record.recorder.events.values import Segment

_WRAPPED = r"\n(?![ \t]*[a-z][\w'-]*[ ,.)])"  # no line end inside a sentence
_BORDER = re.compile(
    rf"[.!?](?=\s|$)|[;:()|\u3002\uff01\uff1f\uff1b\uff1a\uff0c\u3001\uff08\uff09]|{_WRAPPED}|,(?=\s)|\s(?:and|or|but)\s"
)
_FIELD = re.compile(r"[ \t]*(?:[-*][ \t]+)?[A-Z][\w /-]{0,30}")
_SENTENCE_BORDER = re.compile(rf"[.!?](?=\s|$)|[\u3002\uff01\uff1f]|{_WRAPPED}")
_ITEM = re.compile(r"(?m)^(?=(([ \t]*)(?:[-*+]|\d{1,3}[.)])[ \t].*(?:\n\2[ \t]+\S.*)*))")
_ASIDE = re.compile(r"(\([^()\n]*\))")
_LINK = re.compile(r"\[[^\[\]\n]*\](\([^()\s]*\))")
_THAT_IS = ("e", "g")
"""What is left of "i.e." and "e.g." without function words."""
_LISTED = re.compile(r",\s*(?:and\s|or\s)?|\s(?:and|or)\s")
_CLAUSE_CHARS = 80
_NEAR_CHARS = 4  # a change so few characters before a span is next to it
_SHORTEST_WORD = 3
_LEAD_CHARS = 40  # a word is shorter
_MARKS = re.compile(r"[\s.,;:!?()\"'`\u2018\u2019\u201c\u201d]+")
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019]t\b)?")
_NEGATED = re.compile(r"cannot|\w+n['\u2019]t")


def collateral(
    before: SearchablePrompt,
    after: SearchablePrompt,
    removal: Removal,
    others: Sequence[Segment],
    extents: Sequence[str] = (),
) -> Iterator[tuple[str, str]]:
    """Yield a finding for each other fact that is lost, each other change, and one if what stayed changed its order.

    Outside of the sentences that held a value nothing may change but marks; inside, no word that turns or compares may
    change by itself. Words of the clause that held a value may go with it, and so may a clause that depends on it.
    Numbers, months, colours, names and coded words may not, nor may the value of another segment.
    """
    places = [
        place
        for segment in removal.segments
        for place in (*before.occurrences(segment), *names_with(segment.value, before.text))
    ]
    synonyms = [each for segment in removal.segments for each in segment.synonyms if not _is_part(each, segment.value)]
    extent_places = [
        *((before.text.find(each), before.text.find(each) + len(each)) for each in extents),
        *(span for each in synonyms for span in _said(before.text, each)),
    ]
    clauses = list(_clauses(before.text))
    value_places = Spans(places)
    own = [clause for clause in clauses if value_places.touches(*clause)]
    whole_items, whole_asides, whole_fields = (
        list(_wholes(each, before.text, after.text, value_places)) for each in (_ITEM, _ASIDE, INLINE_FIELD)
    )
    extent_places += whole_fields
    extent_places += [link.span(1) for link in _LINK.finditer(before.text) if value_places.touches(*link.span())]
    removed_places = Spans([*places, *extent_places])
    gone = _gone(before.text, after.text, [*places, *extent_places], [*whole_items, *whole_asides], own)
    free = [*own, *_dependent(before.text, clauses, own, gone)]
    own_clauses, free_clauses = Spans(own), Spans(free)
    said = {each.key for each in facts_of(after.text)}
    asides, items, labels = Spans(whole_asides), Spans(whole_items), Spans(_labels(before.text, whole_items))
    for fact in gone:
        if removed_places.has(fact.start):
            continue
        if fact.kind == "word" and fact.key in said and fact.key not in words().logic:
            continue
        is_free = free_clauses.has(fact.start)
        is_aside = asides.has(fact.start) and (fact.key in said or fact.text in _THAT_IS)
        if is_aside or _points_at_value(before.text, fact, places):
            continue
        is_named = fact.kind in ("name", "code") and items.has(fact.start) and own_clauses.has(fact.start)
        if is_named and (fact.key in said or labels.has(fact.start)):
            continue
        if not is_free or fact.kind in ("number", "month", "colour") or (fact.is_hard and own_clauses.has(fact.start)):
            yield "nothing_else_changed", f"{fact.text!r} is gone, too; leave everything else as it was"
    removed = {segment.segment_id for segment in removal.segments}
    for segment in others:
        facts = facts_of(segment.value)
        stays = segment.segment_id not in removed and not any(
            starmap(value_places.touches, before.occurrences(segment))
        )
        is_lost = stays and not after.occurrences(segment, before)
        if is_lost and facts and all(any(each.key == fact.key for each in gone) for fact in facts):
            yield (
                "nothing_else_changed",
                f"{segment.value[:80]!r} of segment {segment.segment_id} is gone, too; keep it",
            )
    zones = [*_sentences(before.text, places), *free, *extent_places, *whole_items]
    yield from _far_changes(before.text, after.text, zones)
    known = set(own)
    wholes = [*whole_items, *whole_asides]
    allowed = [*places, *extent_places, *wholes, *(clause for clause in free if clause not in known)]
    yield from _turned(before.text, after.text, allowed)
    yield from left_over(before.text, after.text, value_places, removed_places)
    if _is_reordered(before.text, after.text, places):
        yield "nothing_else_changed", "what stayed stands in another order; keep the order"


def put_in_place(before: SearchablePrompt, after: SearchablePrompt, removal: Removal) -> Iterator[tuple[str, str]]:
    """Yield a finding for each change that puts words in the place of a deleted value: that is another severity.

    Words of the sentence that the prompt has no oftener than before were moved and not put in.
    """
    if removal.severity != "delete":
        return
    places = [place for segment in removal.segments for place in before.occurrences(segment)]
    yield from _halves_left(before.text, after.text, places)
    cover = Spans(places)
    then, now = (Counter(each.lower() for each in _WORD.findall(text)) for text in (before.text, after.text))
    for hunk in hunks(before.text, after.text):
        if not cover.touches(hunk.start, hunk.end):
            continue
        sentences = _sentences(before.text, [(hunk.start, hunk.end)])
        own = {each.lower() for first, last in sentences for each in _WORD.findall(before.text[first:last])}
        known = {each for each in own if now[each] <= then[each]}
        known |= {"the", *words().strict_prepositions}  # "both current and previous keys" becomes "the keys"
        put_in = [each.lower() for each in _WORD.findall(hunk.new)]
        if any((len(each) >= _SHORTEST_WORD or each == "or") and each not in known for each in put_in):
            yield "severities_differ", f"{hunk.new.strip()[:80]!r} stands in the place of a deleted value; leave it out"


def without_trace(before: SearchablePrompt, after: SearchablePrompt, removal: Removal) -> Iterator[tuple[str, str]]:
    """Yield a finding for each sentence of which nothing is left though its value was to be said in other words."""
    if removal.severity == "delete":
        return
    places = [place for segment in removal.segments for place in before.occurrences(segment)]
    gone = Spans((each.start, each.end) for each in hunks(before.text, after.text) if not _WORD.search(each.new))
    for first, last in _sentences(before.text, places):
        if all(gone.has(word.start()) for word in _WORD.finditer(before.text, first, last)):
            yield "severities_differ", f"{before.text[first:last].strip()[:80]!r} was deleted; say it in other words"


def _halves_left(before: str, after: str, places: Sequence[Span]) -> Iterator[tuple[str, str]]:
    """Yield a finding for each deleted value of which some words stay where they stood: "orders of the brand"."""
    known, lost_starts = facts_of(before), {each.start for each in _gone(before, after, places)}
    for start, end in places:
        facts = [each for each in known if start <= each.start < end]
        kept = [each.text for each in facts if each.start not in lost_starts]
        if 0 < len(kept) < len(facts):
            yield "value_is_gone", f"{', '.join(map(repr, kept))} is left of a deleted value; delete all of it"


def _far_changes(before: str, after: str, zones: Sequence[Span]) -> Iterator[tuple[str, str]]:
    """Yield a finding for each change outside of what was removed, unless only marks or a list's numbers change."""
    numbering = [match.span() for match in LIST_NUMBER.finditer(before)]
    cover = Spans(zones)
    for hunk in hunks(before, after):
        old, new = before[hunk.start : hunk.end], hunk.new
        start = min(hunk.start, len(before) - 1)  # words after the last one belong to its sentence
        if cover.touches(start, hunk.end + _NEAR_CHARS) or not _MARKS.sub("", old + new):
            continue
        if new.strip().isdigit() and any(start <= hunk.start and hunk.end <= end for start, end in numbering):
            continue
        yield "nothing_else_changed", f"far from what was removed, {_change(old, new)}; leave it as it was"


def _turned(before: str, after: str, allowed: Sequence[Span]) -> Iterator[tuple[str, str]]:
    """Yield a finding for each change that turns a demand.

    A change beside a value may neither put in nor take out a word of logic. One that goes over the end of a value may
    not swap such a word there, nor lose "all" or "every".
    """
    cover = Spans(allowed)
    for hunk in hunks(before, after):
        old, new, lead = before[hunk.start : hunk.end], hunk.new, before[max(0, hunk.start - _LEAD_CHARS) : hunk.start]
        if cover.touches(hunk.start, hunk.end + _NEAR_CHARS):
            beside = (at for at in range(hunk.start, hunk.end) if not cover.has(at))
            text = "".join(before[at] for at in beside)
            was, becomes = Counter(_logic(text, lead)), Counter(_logic(new, lead))
            is_turned = bool(was - becomes and becomes - was) or bool(_scope(text) - _scope(new))
        else:
            is_turned = _logic(old, lead) != _logic(new, lead)
        if is_turned:
            yield "nothing_else_changed", f"{_change(old, new)}, which turns what is asked for; leave it as it was"


def _points_at_value(text: str, fact: TextFact, places: Sequence[Span]) -> bool:
    """Return whether a word announces a value in the same sentence: "the following", "three" before three items."""
    for start, end in places:
        between = text[fact.start : start]
        if fact.start >= start or len(between) > _CLAUSE_CHARS or _SENTENCE_BORDER.search(between):
            continue
        items = [each for each in _LISTED.split(text[start:end]) if each.strip()]
        if fold(fact.text) in words().pointers or (fact.kind == "number" and fact.key == str(len(items)) != "1"):
            return True
    return False


def _change(old: str, new: str) -> str:
    if not old.strip():
        return f"{new.strip()[:80]!r} was put in"
    return f"{old.strip()[:80]!r} became {new.strip()[:80]!r}" if new.strip() else f"{old.strip()[:80]!r} is gone"


def _scope(text: str) -> Counter[str]:
    """Return how often each word that says "all of them" occurs in a text, except the last of "8 seats each"."""
    said = list(map(fold, _WORD.findall(text)))
    return Counter(each for each in (said[:-1] if said[-1:] == ["each"] else said) if each in words().scope)


def _logic(text: str, lead: str) -> list[str]:
    """Return the words of a text that turn or compare, in order: "not" for every form of a negated verb.

    "Up" and "down" do after "round" and before "to", and not in "write down". ``lead`` is the text before it.
    """
    said = [fold(each) for each in ((_WORD.findall(lead) or [""])[-1], *_WORD.findall(text))]
    found = (
        "not" if _NEGATED.fullmatch(each) else each
        for at, each in enumerate(said[1:], start=1)
        if each not in ("up", "down") or said[at - 1][:5] == "round" or said[at + 1 : at + 2] == ["to"]
    )
    return [each for each in found if each in words().logic]


def _gone(before: str, after: str, *spans: Sequence[Span]) -> list[TextFact]:
    """Return the lost facts. Among equal ones, the one in the first spans is lost first, then that in the second."""
    covers = list(map(Spans, spans))
    numbers: dict[str, int] = {}
    for each in lost(before, after):
        numbers[each.key] = numbers.get(each.key, 0) + 1
    ordered = sorted(facts_of(before), key=lambda fact: [not cover.has(fact.start) for cover in covers])
    found = []
    for fact in ordered:
        if numbers.get(fact.key, 0) > 0:
            numbers[fact.key] -= 1
            found.append(fact)
    return found


def _is_reordered(before: str, after: str, places: Sequence[Span]) -> bool:
    """Return whether concrete facts that occur once in both texts have changed order.

    In a sentence that held a value a fact may pass those of another kind ("On 3 May, book the room Turing").
    """
    then, now = _once_in_both(before, after), _once_in_both(after, before)
    sentences = Spans(_sentences(before, places))
    kinds = {each.key: each.kind for each in then if sentences.has(each.start)}
    for kind in {"word", *kinds.values()}:
        was, becomes = ([each.key for each in facts if kinds.get(each.key, kind) == kind] for facts in (then, now))
        if was != becomes:
            return True
    return False


def _once_in_both(one: str, other: str) -> list[TextFact]:
    """Return the concrete facts that occur once in both texts, in the order of the first."""
    left, right = ([each for each in facts_of(text) if each.is_hard] for text in (one, other))
    here, there = (Counter(each.key for each in facts) for facts in (left, right))
    return [each for each in left if here[each.key] == there[each.key] == 1]


def _is_part(synonym: str, value: str) -> bool:
    """Return whether a synonym only repeats a part of the value, such as "customer" for "by customer"."""
    return {each.key for each in facts_of(synonym)} <= {each.key for each in facts_of(value)}


def _said(text: str, words: str) -> Iterator[Span]:
    for found in re.finditer(rf"(?<!\w){re.escape(words)}(?!\w)", text):
        yield found.span()


def _wholes(pattern: re.Pattern[str], before: str, after: str, values: Spans) -> Iterator[Span]:
    """Yield the list items, or the asides, that hold a value and went as a whole."""
    known = facts_of(before)
    starts, cover = [each.start for each in known], Spans((each.start, each.end) for each in hunks(before, after))
    for found in pattern.finditer(before):
        start, end = found.span(1)
        facts = known[bisect_left(starts, start) : bisect_left(starts, end)]
        if values.touches(start, end) and facts and all(cover.has(each.start) for each in facts):
            yield start, end


def _labels(text: str, items: Iterable[Span]) -> Iterator[Span]:
    for start, end in items:
        label = _FIELD.match(text, start, end)
        if label and text.startswith(":", label.end()):
            yield label.span()


def _clauses(text: str) -> Iterator[Span]:
    start = 0
    for border in _BORDER.finditer(text):
        if border.group() == ":" and _FIELD.fullmatch(text, text.rfind("\n", 0, border.start()) + 1, border.start()):
            continue
        yield start, border.start()
        start = border.end()
    yield start, len(text)


def _sentences(text: str, places: Sequence[Span]) -> Iterator[Span]:
    borders = [0, *(match.end() for match in _SENTENCE_BORDER.finditer(text)), len(text)]
    cover = Spans(places)
    for first, last in pairwise(borders):
        if cover.touches(first, last):
            yield first, last


def _dependent(text: str, clauses: Sequence[Span], own: Sequence[Span], gone: Sequence[TextFact]) -> Iterator[Span]:
    """Yield the subordinate clauses beside a value's clause, in the same sentence, that went as a whole."""
    known = facts_of(text)
    starts, lost_starts = [each.start for each in known], {each.start for each in gone}
    for clause in clauses:
        opening = text[clause[0] : clause[1]].split(maxsplit=1)
        if not opening or opening[0].lower() not in words().openers:
            continue
        facts = known[bisect_left(starts, clause[0]) : bisect_left(starts, clause[1])]
        if not facts or not all(each.start in lost_starts for each in facts):
            continue
        is_beside = any(
            not _SENTENCE_BORDER.search(text[min(clause[1], each[1]) : max(clause[0], each[0])]) for each in own
        )
        if is_beside:
            yield clause
