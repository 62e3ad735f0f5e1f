"""Fit the weights of ``data/user/evidence.toml``: ``python -m tests.runners.users.simulated_user.calibrate SET …``.

What a simulated user makes of a set is measured by ``lhaw-record variants user``. Here the sets give weights. Each
variant is also asked what it must not answer: tries of ``hostile_tries.txt``, and questions for a segment that stands
in its prompt again. First come weights that have not seen the variants that they are scored on.
"""

import argparse
import random
import sys
import zlib
from pathlib import Path

import msgspec
import numpy as np

from lhaw_record.generators.generation.user_calibration import bundled_sets, read_set
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.users.simulated_user import evidence
from lhaw_record.runners.users.simulated_user.encoder import installed_encoder
from lhaw_record.runners.users.simulated_user.matcher import parts_of
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge

TRIES = Path(__file__).parent / "hostile_tries.txt"
TRIES_EACH = 24
WEIGHT_OF = {"labelled": 1.0, "hostile": 0.3, "restored": 0.3, "named": 0.3}
REQUESTS = (
    "Please tell me {1}.",
    "Please give me {1} and {2}.",
    "What's {1}, and what's {2}?",
    "Could you let me know {1} and {2}, please?",
    "I still need {1} from you.",
    "I need {1} as well as {2}.",
    "Please specify {1}, and confirm {2}.",
    "Bitte nennen Sie mir {1} und {2}.",
    "Dites-moi {1}, s'il vous plaît.",
    "Dígame {1} y {2}, por favor.",
    "请告诉我{1}和{2}。",
)
MARGINS = {"rules": (-0.4, 0.7), "encoder": (-0.6, 1.25)}  # how much sooner a segment is given, a message refused
THRESHOLDS = (-1.0, -0.75, -0.5, -0.25, 0.0, 0.25)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A question, what it asks for, and the evidence for it: parts x segments x features, None if it has no parts."""

    variant: str
    source: str
    kind: str
    question: str
    asks_for: frozenset[str]
    segment_ids: tuple[str, ...]
    values: object
    vector: object

    for_several: tuple[bool, ...]

    @property
    def is_hostile(self):
        """Whether it fishes or injects."""
        return self.kind.startswith(("fishing", "injection"))


def knowledge_of_desk():
    """Return what the users of desk's variants know."""
    desk = DeskBenchmark()
    prompts = {task.task_id: task.prompt for task in desk.tasks()}
    return {each.variant_id: UserKnowledge.of_variant(prompts[each.task_id], each) for each in desk.variants()}


def hostile_tries(knowledge):
    """Return the hostile tries that were written while the matcher was built, about names of a variant's segments."""
    return [filled(each, knowledge) for each in TRIES.read_text(encoding="utf-8").splitlines()]


def filled(text, knowledge):
    """Return a text with names of a variant's segments in the place of {1}, {2} and {3}."""
    names = [(each.synonyms or (each.value,))[0] for each in knowledge.removed]
    for number in range(1, 4):
        text = text.replace(f"{{{number}}}", names[(number - 1) % len(names)])
    return text


def load(sets, encoder):
    """Return the cases of some sets, and the names of the features."""
    known, chance, cases, names = knowledge_of_desk(), random.Random(0), [], []
    for user in (user for each in sets for user in read_set(bundled_sets().get(each) or Path(each), None, known)):
        asked = [("labelled", each.kind, each.question, each.asks_for, user.knowledge) for each in user.questions]
        tries = chance.sample([*enumerate(hostile_tries(user.knowledge))], TRIES_EACH)
        asked += [("hostile", f"fishing {number}", each, (), user.knowledge) for number, each in tries]
        ids = [each.segment_id for each in user.knowledge.removed]
        for text in REQUESTS:
            wanted = ids[: 2 if "{2}" in text else 1]
            asked.append(("named", "request", filled(text, user.knowledge), wanted, user.knowledge))
        asked += [
            ("restored", each.kind, each.question, (), with_one_restored)
            for segment_id, with_one_restored in restored(user.knowledge)
            for each in user.questions
            if set(each.asks_for) == {segment_id}
        ]
        for source, kind, question, asks_for, knowledge in asked:
            message, parts, by_rules = parts_of(question, "", knowledge)
            found = evidence.features(message, parts, by_rules, knowledge, encoder) if parts else {}
            names = list(found) or names
            cases.append(
                Case(
                    variant=user.variant_id,
                    source=source,
                    kind=kind,
                    question=question,
                    asks_for=frozenset(asks_for),
                    segment_ids=tuple(segment.segment_id for segment in knowledge.removed),
                    for_several=tuple(part.is_for_several for part in parts),
                    values=np.stack(list(found.values()), axis=-1) if found else None,
                    vector=evidence.message_vector(message, encoder),
                )
            )
    return cases, names


def restored(knowledge):
    """Yield each segment's id, and the knowledge of a user whose prompt has the segment after all."""
    changes = evidence._changes(knowledge.full_prompt, knowledge.sent_prompt)
    for segment in knowledge.removed:
        place = evidence._place(segment, knowledge.full_prompt, changes)
        rest = tuple(each for each in knowledge.removed if each is not segment)
        inside = [each for each in changes if place and place[0] <= each[2] and each[3] <= place[1]]
        if rest and inside:
            said = knowledge.full_prompt[inside[0][0] : inside[-1][1]]
            sent = knowledge.sent_prompt[: place[0]] + said + knowledge.sent_prompt[place[1] :]
            known = msgspec.structs.replace(
                knowledge,
                sent_prompt=sent,
                removed=rest,
                expected=tuple(each for each in knowledge.expected if each.segment_id != segment.segment_id),
            )
            if evidence.is_placed(known):
                yield segment.segment_id, known


def fit(cases, margins, penalty=0.3):
    """Return the weights that separate segments that are asked for from the others, by their nearest part.

    And those that separate hostile messages from others, by the most of each kind of evidence.
    """
    cases = [case for case in cases if case.values is not None]
    messages = [case for case in cases if case.source != "restored"]
    most = np.array([[*case.values.max(axis=(0, 1)), *case.vector, 1.0] for case in messages])
    is_hostile = np.array([float(case.is_hostile) for case in messages])
    hostile = _logistic(most, is_hostile, np.array([WEIGHT_OF[case.source] for case in messages]), penalty)
    weights, cases = np.ones(cases[0].values.shape[-1] + 1), [case for case in cases if not case.is_hostile]
    for _ in range(5):
        chosen, labels, counts = [], [], []
        for case in cases:
            nearest = (case.values @ weights[:-1]).argmax(axis=0)
            for at, segment_id in enumerate(case.segment_ids):
                chosen.append([*case.values[nearest[at], at], 1.0])
                labels.append(float(segment_id in case.asks_for))
                counts.append(WEIGHT_OF[case.source])
        weights = _logistic(np.array(chosen), np.array(labels), np.array(counts), penalty)
    weights[-1] += margins[0]
    hostile[-1] += margins[1]
    return weights, hostile


def _logistic(inputs, labels, counts, penalty):
    weights = np.zeros(inputs.shape[1])
    ridge = np.eye(len(weights)) * penalty
    ridge[-1, -1] = 1e-6
    for _ in range(30):
        chance = 1 / (1 + np.exp(-inputs @ weights))
        slope = inputs.T @ (counts * (chance - labels)) + ridge @ weights
        weights -= np.linalg.solve((inputs.T * (counts * chance * (1 - chance))) @ inputs + ridge, slope)
    return weights


def decided(case, both_weights, threshold=0.0):
    """Return what the evidence gives: for each part the best segment, if it is sure enough."""
    weights, hostile = both_weights
    if case.values is None or [*case.values.max(axis=(0, 1)), *case.vector, 1.0] @ hostile > 0:
        return frozenset()
    return frozenset(
        segment_id
        for score, value, several in zip(
            case.values @ weights[:-1] + weights[-1], case.values, case.for_several, strict=True
        )
        for at, segment_id in enumerate(case.segment_ids)
        if score[at] > threshold and (at == score.argmax() or several or value[at, 0])
    )


def figures(pairs):
    """Return in words how many questions were answered, how precisely, and what else got something."""
    aimed = [(case, got) for case, got in pairs if case.asks_for and case.source == "labelled"]
    given = [(case, each) for case, got in pairs if case.source == "labelled" for each in got]
    right = sum(each in case.asks_for for case, each in given)
    others = {
        source: [bool(got) for case, got in pairs if case.source == source and not case.asks_for]
        for source in WEIGHT_OF
    }
    return (
        f"found {sum(case.asks_for <= got for case, got in aimed)} of {len(aimed)}, right {right} of {len(given)}; "
        + ", ".join(f"{source} for nothing {sum(each)} of {len(each)}" for source, each in others.items())
    )


def main():
    """Print what weights give on a quarter of the variants and of the tries that they have not seen, and weights."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="+", metavar="SET")
    chosen = parser.parse_args()
    for name, encoder in (("rules", None), ("encoder", installed_encoder())):
        cases, names = load(chosen.sets, encoder)
        unseen = []
        for fold in range(4):
            is_in_fold = [zlib.crc32(case.variant.encode()) % 4 == fold for case in cases]
            is_try = [case.source == "hostile" and zlib.crc32(case.kind.encode()) % 4 == fold for case in cases]
            flags = list(zip(cases, is_in_fold, is_try, strict=True))
            weights = fit([case for case, there, tried in flags if not there and not tried], MARGINS[name])
            unseen += [(case, weights) for case, there, tried in flags if there and (tried or case.source != "hostile")]
        sys.stdout.write(f"# {name}\n")
        for threshold in THRESHOLDS:
            said = figures([(case, decided(case, weights, threshold)) for case, weights in unseen])
            sys.stdout.write(f"# unseen, above {threshold:+.2f}: {said}\n")
        weights = fit(cases, MARGINS[name])
        sys.stdout.write(f"# seen: {figures([(case, decided(case, weights)) for case in cases])}\n")
        for kind, values in zip(("asked", "hostile"), weights, strict=True):
            sys.stdout.write(f"[weights.{name}.{kind}]\n")
            for feature, weight in zip([*names, "bias"], [*values[: len(names)], values[-1]], strict=True):
                sys.stdout.write(f"{feature} = {weight:.2f}\n")
        rounded = [round(each, 2) for each in weights[1][len(names) : -1].tolist()]
        sys.stdout.write(f"[weights.{name}]\nmessage = {rounded}\n")


if __name__ == "__main__":
    main()
