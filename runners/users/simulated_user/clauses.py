"""Splits a question into the clauses that ask for something, each with the text that precedes it."""

import re

import msgspec

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+|(?:^|\s)\d+[.)]\s+")
_ASKING_WORD = (
    r"(?:what|which|who|whom|whose|where|when|how|is|are|do|does|should|shall|must|may|can|could|will|would|am)"
)
_PREPOSITION = r"(?:by|in|at|on|to|from|for|over|under|above|below|with|of|as|until|since|starting)"
_JOIN = re.compile(
    rf",?\s+(?:and|or|plus|as well as)\s+(?:if so,?\s+)?(?=(?:{_PREPOSITION}\s+)?{_ASKING_WORD}\b)"
    rf"|,\s+(?={_ASKING_WORD}\b)"
)
_REQUEST = re.compile(
    r"\b(?:please (?:specify|tell|provide|clarify|confirm|state|let)|let me know|tell me|i need to know"
    r"|(?:could|can) you (?:specify|clarify|tell|provide)|specify (?:the|which|what))\b"
)
_POINTER = re.compile(r"\b(?:it|its|they|them|this|that|these|those|one|ones|there|here)\b")
_CHECK = re.compile(
    r"^(?:is|are|was) (?:that|this|it|these|they) (?:correct|right|what you (?:want|mean|need))\b|^(?:right|correct)$"
)


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """One asking clause, in lower case and without its question mark, and the text before it.

    ``is_pointing`` is true if the clause refers to that text, as in "which one".
    """

    text: str
    background: str
    is_pointing: bool


def asking_clauses(question: str, context: str) -> list[Clause]:
    """Return every clause of the question that asks for something.

    If a sentence only asks to confirm the sentence before it ("Is that correct?"), the earlier sentence is used
    instead.
    """
    clauses: list[Clause] = []
    before = [sentence for sentence in sentences(context) if sentence]
    for sentence in sentences(question):
        for part in _JOIN.split(sentence) if _is_asking(sentence) else ():
            text = part.rstrip("?.!;, ").strip()
            if _CHECK.search(text) and before:
                clauses.append(Clause(text=before[-1].rstrip("?.!;, "), background="", is_pointing=False))
            elif text:
                clauses.append(Clause(text=text, background=" ".join(before), is_pointing=bool(_POINTER.search(text))))
            before.append(text)
        if not _is_asking(sentence):
            before.append(sentence)
    return clauses


def sentences(text: str) -> list[str]:
    """Split a text into sentences in lower case, keeping end marks. A line or a numbered point counts as a sentence."""
    return [part.strip() for part in _SENTENCE_END.split(text.lower().replace("\u2019", "'")) if part and part.strip()]


def _is_asking(sentence: str) -> bool:
    return sentence.endswith("?") or bool(_REQUEST.search(sentence))
