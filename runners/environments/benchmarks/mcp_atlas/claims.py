"""Match claims against a final answer without a model: numbers, dates, identifiers, then the words around them.

The scores are those of the benchmark: 1 for fulfilled, 0.5 for partially fulfilled, 0 for not fulfilled. The matcher
compares words, not meaning, so it handles negations and paraphrases poorly. Its name is recorded with every result, so
that nobody mistakes it for a judge.
"""

import re
from collections.abc import Sequence

import msgspec

from lhaw_record.recorder.events.values import Task
from lhaw_record.runners.environments.benchmarks.mcp_atlas.facts import ClaimFact, facts_of, sentences_of, words_of
from lhaw_record.runners.environments.grading.deliverables import CheckpointNotMet, Deliverables
from lhaw_record.runners.environments.grading.grade import CheckpointResult, Grade

MATCHER = "mcp_atlas/matcher-1"
PASS_COVERAGE = 0.75
NUMBER_TOLERANCE = 0.05  # the claim protocol: numbers within 5 % match,
PERCENTAGE_TOLERANCE_POINTS = 1.0  # percentages within 1 point
WORD_SHARE_TIED = 0.5
NEW_WORD_SHARE_FULL = 0.75
NEW_WORD_SHARE_PARTIAL = 0.5
SAME_WORD_SHARE_FULL = 0.6
SAME_WORD_SHARE_PARTIAL = 0.4
_ATTRIBUTION = re.compile(r"^\s*(?:according to|based on|as per|per)\b[^,]*,\s*", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:not|no|never|none|neither|cannot)\b|n't\b", re.IGNORECASE)
_DECREASE = re.compile(
    r"\b(?:decreas|drop|fell|fall|lower|less|declin|reduc|cheaper|down|shrank|minus|smaller)\w*", re.IGNORECASE
)
_EPSILON = 1e-9


class ClaimScore(msgspec.Struct, frozen=True):
    """The score of one claim, with the reason in one sentence."""

    score: float
    reason: str


class _Sentence(msgspec.Struct, frozen=True):
    """One sentence of an answer.

    ``words`` also contains the words of the previous sentence, which may be its heading or name its subject.
    """

    text: str
    facts: tuple[ClaimFact, ...]
    words: frozenset[str]
    is_decrease: bool


def coverage_of(scores: Sequence[float]) -> float:
    """Return the mean of the claim scores, rounded to three decimal places as the pass threshold expects."""
    if not scores:
        raise ValueError("a task without claims has no coverage")
    return round(sum(scores) / len(scores), 3)


def match_claims(claims: Sequence[str], answer: str, prompt: str) -> list[ClaimScore]:
    """Score every claim against an answer."""
    sentences = _sentences(answer)
    return [_match(claim, sentences, prompt) for claim in claims]


def match_left(left: Deliverables, claims: Sequence[str], prompt: str) -> list[ClaimScore]:
    """Score every claim against what an agent left behind. Runs in the child process."""
    try:
        answer = left.final_answer
    except CheckpointNotMet as unmet:
        return [ClaimScore(0.0, str(unmet)) for _ in claims]
    return match_claims(claims, answer, prompt)


def _sentences(answer: str) -> list[_Sentence]:
    texts = sentences_of(answer)
    before = ["", *texts]
    return [
        _Sentence(text, facts_of(text), words_of(text) | words_of(previous), _DECREASE.search(text) is not None)
        for text, previous in zip(texts, before, strict=False)
    ]


def _match(claim: str, sentences: list[_Sentence], prompt: str) -> ClaimScore:
    if not sentences:
        return ClaimScore(0.0, "the answer is empty")
    statement = _ATTRIBUTION.sub("", claim)
    given = facts_of(prompt)
    wanted = [fact for fact in facts_of(statement) if not any(_is_stated(fact, other) for other in given)]
    if wanted:
        return _match_facts(wanted, words_of(statement), sentences)
    new_words = words_of(statement) - words_of(prompt)
    return _match_new_words(new_words, sentences) if new_words else _match_same_words(statement, sentences)


def _match_facts(wanted: list[ClaimFact], words: frozenset[str], sentences: list[_Sentence]) -> ClaimScore:
    """Score a claim by its facts: 1 if every fact occurs near words of the claim, 0.5 if only part of that holds."""
    places = [
        [s for s in sentences if any(_is_same(fact, other, s.is_decrease) for other in s.facts)] for fact in wanted
    ]
    lacking = [fact.text.strip() for fact, found in zip(wanted, places, strict=True) if not found]
    if len(lacking) == len(wanted):
        return ClaimScore(0.0, f"not in the answer: {', '.join(lacking)}")
    if lacking:
        return ClaimScore(0.5, f"partly in the answer; missing: {', '.join(lacking)}")
    shares = [max(_share(words, sentence.words) for sentence in found) for found in places]
    values = ", ".join(fact.text.strip() for fact in wanted)
    if min(shares) >= WORD_SHARE_TIED:
        return ClaimScore(1.0, f"found {values} with {min(shares):.0%} of the claim's words beside it")
    return ClaimScore(0.5, f"found {values}, but only {min(shares):.0%} of the claim's words beside it")


def _match_new_words(new_words: frozenset[str], sentences: list[_Sentence]) -> ClaimScore:
    """Score a claim without facts by how many of the words that it adds to the prompt occur together in the answer."""
    share = max(_share(new_words, sentence.words) for sentence in sentences)
    score = 1.0 if share >= NEW_WORD_SHARE_FULL else 0.5 if share >= NEW_WORD_SHARE_PARTIAL else 0.0
    return ClaimScore(score, f"{share:.0%} of what the claim adds to the prompt is in one place of the answer")


def _match_same_words(statement: str, sentences: list[_Sentence]) -> ClaimScore:
    """Score a claim that repeats one of the prompt's options, using sentences of the answer with the same subject."""
    ordered = [word for token in statement.split() for word in words_of(token)]
    subject = ordered[0] if ordered else ""
    is_negated = _NEGATION.search(statement) is not None
    fitting = [
        s for s in sentences if subject in words_of(s.text) and (_NEGATION.search(s.text) is not None) == is_negated
    ]
    share = max((_share(words_of(statement), words_of(sentence.text)) for sentence in fitting), default=0.0)
    score = 1.0 if share >= SAME_WORD_SHARE_FULL else 0.5 if share >= SAME_WORD_SHARE_PARTIAL else 0.0
    return ClaimScore(score, f"{share:.0%} of the claim's words in one sentence about {subject!r}")


def _share(wanted: frozenset[str], found: frozenset[str]) -> float:
    return len(wanted & found) / len(wanted) if wanted else 1.0


def _is_stated(fact: ClaimFact, given: ClaimFact) -> bool:
    """Return whether the prompt already states exactly this fact."""
    return bool(set(fact.values) & set(given.values))


def _is_same(wanted: ClaimFact, found: ClaimFact, is_decrease: bool) -> bool:
    """Return whether a fact of the answer matches the wanted one, within the tolerance of its kind."""
    if wanted.kind in ("date", "year"):
        return bool(set(wanted.values) & set(found.values))
    if wanted.kind == "identifier":
        return found.kind == "identifier" and _is_same_identifier(str(wanted.values[0]), str(found.values[0]))
    if found.kind not in ("number", "percentage", "year"):
        return False
    want, have = float(wanted.values[0]), float(found.values[0])
    candidates = [have, -have] if is_decrease else [have]
    if wanted.kind == "percentage":
        if found.kind != "percentage" and abs(have) <= 1:  # the same share written as a fraction
            candidates = [100 * value for value in candidates]
        return any(abs(value - want) <= PERCENTAGE_TOLERANCE_POINTS + _EPSILON for value in candidates)
    return any(abs(value - want) <= NUMBER_TOLERANCE * abs(want) + _EPSILON for value in candidates)


def _is_same_identifier(wanted: str, found: str) -> bool:
    wanted, found = wanted.strip("^~."), found.strip("^~.")
    if re.fullmatch(r"[0-9a-f]{7,40}", wanted) and re.fullmatch(r"[0-9a-f]{7,40}", found):
        return wanted.startswith(found) or found.startswith(wanted)
    return wanted == found or wanted.endswith("/" + found) or found.endswith("/" + wanted)


def grade_claims(left: Deliverables, task: Task) -> Grade:
    """Grade a final answer with the matcher; runs in the child."""
    return grade_of(task, match_left(left, [checkpoint.label for checkpoint in task.checkpoints], task.prompt))


def grade_of(task: Task, scores: Sequence[ClaimScore]) -> Grade:
    """Return the grade: one result for each claim, and success from a coverage of 0.75 on."""
    coverage = coverage_of([score.score for score in scores])
    results = tuple(
        CheckpointResult(checkpoint_id=checkpoint.checkpoint_id, score=score.score, details=score.reason)
        for checkpoint, score in zip(task.checkpoints, scores, strict=True)
    )
    return Grade(results=results, is_success=coverage >= PASS_COVERAGE, final_score=coverage, final_total=1.0)
