"""Decides by rules whether a turn ends by asking the user something: the judge ``rules/1``.

A question mark is not a question. Most endings that have one offer more work, and some endings without one wait for an
answer. So the rules read only how a text closes, without code, quotations and headings, and sort what it asks for.
Source: docs/metrics.md 1, prose. Precision and recall on endings of public sessions: docs/asking.md.
"""

import re
from collections.abc import Iterator

from lhaw_record.recorder.events.judging import Asking

PROSE_JUDGE = "rules/1"
READ_CHARACTERS = 6000
_LIST_CHARACTERS = 1500
_PROSE_CHARACTERS = 240
"""How much may follow a question that still closes its text: options in a list, and prose, such as a recommendation."""


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_NOT_SAID = re.compile(
    r"^[ \t]*(?P<code>```)|(?P<thought><think(?:ing)?>)|^[ \t]*[>|#][^\n]*$|^[ \t]*[-*_]{3,}[ \t]*$", re.MULTILINE
)
_END_OF = {
    "code": re.compile(r"^[ \t]*```[ \t]*$", re.MULTILINE),
    "thought": re.compile(r"</think(?:ing)?>"),
}
_MENTION = re.compile(r"`[^`\n]*`|https?://\S+|\"[^\"\n]*\"|“[^”\n]*”|「[^」\n]*」")
_EMPHASIS = re.compile(r"\*\*|__|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)")
_ITEM = re.compile(r"^\s*(?:[-*+•]|\(?\w{1,2}[.)])\s")
_SENTENCE = re.compile(r".+?(?:[.!?…:][\"')\]]*(?=\s|$)|[\u3002\uff01\uff1f\uff1b]|$)")
_MARK = re.compile(r"[?\uff1f][\"')\]\s]*$|^(?:which|should i|do you|would you|shall i)\b[^.!]*:$", re.IGNORECASE)

_COURTESY = _any(
    r"\b(?:how|what) (?:can|may) i (?:help|assist|do)\b",
    r"\b(?:any|some)(?:thing)? (?:else|(?:other |further |more )?questions)\b",
    r"\b(?:what|where) (?:\w+ ){1,4}(?:next|today|now)\?",
    r"\b(?:make sense|does (?:that|this) help)\?",
    r"还有(?:什么|其他)|有什么(?:可以|能)",
)
_OFFER = _any(
    r"\b(?:want|like|need|prefer|wish)(?: for)? (?:me|us)\b",
    r"\bwould you (?:like|prefer)(?: to| that| if)?\b",
    r"^(?:want|need|interested in|curious) \w",
    r"\b(?:should|shall|can|could|may) (?:i|we) (?:also|help)\b",
    r"\bwould it (?:help|be (?:useful|helpful))\b",
    r"(?:需要|要不要|想要?|是否要)(?:让)?我",
    r"\b(?:möchtest du|willst du|möchten sie|soll ich (?:auch|noch)|voulez-vous|souhaitez-vous|quieres que)\b",
)
_PERMISSION = _any(
    r"^(?:so |ok(?:ay)?,? |and |now )?(?:should|shall|may|can|could) (?:i|we)\b",
    r"\b(?:ok(?:ay)?|alright|fine|good|safe|ready|clear) (?:for me |with you )?(?:to|if i) \w",
    r"\b(?:proceed|go ahead|ship it|approved?|continue|ready)\?",
    r"\b(?:look|sound)s? (?:\w+ ){0,2}(?:good|right|okay|ok|fine|complete|correct|reasonable)\b",
    r"\b(?:do|can|will|would) you (?:approve|confirm|agree|allow)\b",
    r"(?:继续|开始|执行)吗|是否(?:继续|可以|同意)",
    r"\b(?:soll ich|darf ich|dois-je|puis-je|debo|puedo|procedo)\b",
)
_OPEN = _any(
    r"^(?:and |so |but )?(?:which|what|where|when|who|how)\b",
    r"^¿?(?:welche[rns]?|was|wann|quel(?:le)?s?|qué|cuál(?:es)?)\b",
    r"哪",
)
_CHOICE = _any(
    r"\bor\b(?! (?:something|anything|would you|do you|is|are|if|any|similar|not)\b)(?=.*\?)",
    r"^or\b",
    r"还是",
    r"\b(?:oder|ou bien)\b",
)
_SATISFIED = _any(
    r"\bor (?:is|are|do|would|should)\b.*\b(?:as[- ]is|good to go|enough|sufficient|fine|acceptable|happy|ok)\b"
)
_ADDRESSED = _any(
    r"\b(?:you|your|i|we|me|which|should|prefer)\b", r"[¿你您我哪]", r"\b(?:welche|quel|cuál|soll|du|sie|vous|usted)\b"
)
_ANSWER = re.compile(r"(?:yes|no|not|because)\b", re.IGNORECASE)
_REQUEST = _any(
    r"(?:^|\b(?:please|can you|could you|once you|just|so|and) )"
    r"(?:tell me|let me know|specify|clarify|choose|indicate|say) "
    r"(?:\w+ ){0,2}?(?:which|what|how|where|when|who|whether|your)\b",
    r"\b(?:please|could you|can you)(?: \w+)? "
    r"(?:provide|share|specify|clarify|choose|pick|select|paste|answer|give|send|tell)\b",
    r"\bi (?:\w+ )?need (?:you to|your|to know|(?:more|some) (?:information|details|context|clarification))\b",
    r"\bneed\b.{1,60} (?:to|before i can) (?:continue|proceed|go on)\b",
    r"\bwait(?:ing)? for your (?:answer|reply|input|decision|choice|response)\b",
    r"(?:请|麻烦)你?(?:告诉|提供|说明|选择|指定)",
    r"\b(?:bitte (?:sag|teile|gib|nenne)|veuillez|por favor,? (?:dime|indica))",
)
_CONSENT = _any(
    r"\b(?:please|once you|until you) (?:confirm|approve)\b",
    r"\b(?:awaiting|wait(?:ing)? for) your (?:confirmation|approval|go-ahead)\b",
    r"\blet me know (?:if|when) (?:i|we) (?:should|can|may)\b",
    r"请确认",
)
_SPARE = _any(
    r"\b(?:let me know )?if (?:you(?:'d| would)? (?:want|like|need|prefer)|useful|helpful|desired)\b",
    r"如果(?:你)?(?:需要|想)",
)
_MAY_ASK = _any(
    r"[?\uff1f:]",
    r"\b(?:if (?:you|useful|helpful|desired)|tell|let me know|specify|clarify|choose|indicate|say|please"
    r"|c(?:ould|an) you|need|wait(?:ing)?|awaiting|(?:once|until) you|bitte|veuillez|por favor)\b",
    r"请|麻烦|如果",
)
"""Every sentence that asks has one of these. Looking for them first takes a fifth of the time of the rules."""


def asking_of(text: str) -> Asking:
    """Return what the closing of a text asks its reader for."""
    kinds = {kind for kind, _ in _closing(text)}
    order: tuple[Asking, ...] = ("question", "permission", "offer")
    return next((kind for kind in order if kind in kinds), "none")


def asked_in(text: str) -> tuple[str, str]:
    """Return what a turn asks, its last lines from the first one that asks, and what it says before them.

    If no line asks by the rules, its last paragraph is what it asks.
    """
    lines = text.rstrip().split("\n")
    asking = [below for kind, below in _closing(text.rstrip()) if kind in ("question", "permission")]
    paragraph = next((at for at, line in enumerate(reversed(lines)) if not line.strip()), len(lines))
    at = len(lines) - (max(asking) + 1 if asking else paragraph)
    return "\n".join(lines[at:]).strip(), "\n".join(lines[:at]).strip()


def _closing(text: str) -> Iterator[tuple[Asking, int]]:
    """Yield what the sentences that close a text ask for, the last first, each with the number of lines below it."""
    said = _said(text)[-READ_CHARACTERS:]
    prose, listed, after = 0, 0, ""
    for below, line in enumerate(reversed(said.split("\n"))):
        is_item = _ITEM.match(line) is not None
        plain = _EMPHASIS.sub("", _MENTION.sub("it", _ITEM.sub("", line)))
        for sentence in (each.strip() for each in reversed(_SENTENCE.findall(plain))):
            if prose > _PROSE_CHARACTERS or listed > _LIST_CHARACTERS:
                return
            kind = _kind_of(sentence)
            yield "none" if kind != "none" and _is_answered(sentence, after) else kind, below
            if kind == "none" and is_item:
                listed += len(sentence)
            elif kind == "none" and sentence.strip("!") == sentence != "":
                prose, after = prose + len(sentence), sentence


def _said(text: str) -> str:
    """Return a text without code, thoughts, quotations and headings, with as many lines.

    The author chooses how much of it opens without an end, so an end is not sought again where none is left.
    """
    parts: list[str] = []
    endless: set[str] = set()
    done = at = 0
    while opened := _NOT_SAID.search(text, at):
        kind, at = opened.lastgroup, opened.end()
        if kind in endless:
            continue
        if kind is not None:
            closed = _END_OF[kind].search(text, at)
            if closed is None:
                endless.add(kind)
                continue
            at = closed.end()
        parts += [text[done : opened.start()], "\n" * text.count("\n", opened.start(), at)]
        done = at
    return "".join((*parts, text[done:]))


def _is_answered(sentence: str, after: str) -> bool:
    """Return whether a question is one that the text asks and answers itself."""
    if not _MARK.search(sentence):
        return False
    return _ANSWER.match(after) is not None or bool(after and not _ADDRESSED.search(sentence))


def _kind_of(sentence: str) -> Asking:
    if not _MAY_ASK.search(sentence) or _COURTESY.search(sentence):
        return "none"
    if not _MARK.search(sentence):
        found: tuple[tuple[re.Pattern[str], Asking], ...] = (
            (_SPARE, "offer"),
            (_REQUEST, "question"),
            (_CONSENT, "permission"),
        )
    elif _OPEN.search(sentence) or (_CHOICE.search(sentence) and not _SATISFIED.search(sentence)):
        return "question"
    else:
        found = ((_OFFER, "offer"), (_PERMISSION, "permission"), (_MARK, "question"))
    return next((kind for pattern, kind in found if pattern.search(sentence)), "none")
