"""Fit and measure the matcher on labelled questions.

``python -m tests.runners.users.simulated_user.calibrate --questions SET.json … --names NAMES.json …`` measures both
matchers on sets in the form of docs/matcher.md, and what each idea gives. ``--fit`` prints the weights of
``data/user/evidence.toml``, and how good weights are that have not seen the variant they are scored on.
"""

import argparse
import json
import sys
from pathlib import Path

import msgspec
import numpy as np

from lhaw_record.recorder.events.values import ExpectedQuestions, Segment
from lhaw_record.runners.users.simulated_user import evidence
from lhaw_record.runners.users.simulated_user.encoder import installed_encoder
from lhaw_record.runners.users.simulated_user.matcher import asked_segments, parts_of
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge

HOSTILE = ("fishing", "injection")
IDEAS = {
    "text and value alone": {"synonyms": False, "questions": False, "prompt": False},
    "with the prompts": {"synonyms": False, "questions": False},
    "with names": {"questions": False, "prompt": False},
    "with questions": {"synonyms": False, "prompt": False},
    "with names and questions": {"prompt": False},
    "with all": {},
}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A labelled question and what the user knows when it is asked."""

    group: str
    question: str
    kind: str
    asks_for: frozenset[str]
    knowledge: UserKnowledge


def load(question_files, name_files, *, synonyms=True, questions=True, prompt=True, only=99):
    """Return the cases of some sets, with or without each kind of evidence."""
    names = {}
    for each in name_files:
        names.update(json.loads(Path(each).read_text(encoding="utf-8")))
    cases = []
    for each in question_files:
        content = json.loads(Path(each).read_text(encoding="utf-8"))
        known = {
            variant["id"]: _knowledge(variant, names.get(variant["id"], {}), synonyms, questions, prompt, only)
            for variant in content["variants"]
        }
        cases += [
            Case(
                group=entry["variant"],
                question=entry["question"],
                kind=entry["kind"],
                asks_for=frozenset(entry["asks_for"]),
                knowledge=known[entry["variant"]],
            )
            for entry in content["questions"]
        ]
    return cases


def _knowledge(variant, names, synonyms, questions, prompt, only):
    fields = ("segment_id", "dimension", "subdimension", "text", "value")
    removed = tuple(
        Segment(
            **{field: segment[field] for field in fields if field in segment},
            synonyms=tuple(names.get(segment["segment_id"], {}).get("synonyms", ())[:only]) if synonyms else (),
        )
        for segment in variant["segments"]
    )
    expected = tuple(
        ExpectedQuestions(segment_id=segment_id, questions=tuple(each.get("questions", ())[:only]))
        for segment_id, each in names.items()
        if questions
    )
    return UserKnowledge(
        full_prompt=variant["full_prompt"] if prompt else "",
        sent_prompt=variant["sent_prompt"] if prompt else "",
        removed=removed,
        expected=expected,
    )


def parts_and_rules(case):
    """Return a question's parts, and what the rules say about each."""
    return parts_of(case.question, "", case.knowledge)


def table(cases, encoder):
    """Return the evidence for every case: (case, names of features, parts x segments x features)."""
    found = []
    for case in cases:
        parts, rules = parts_and_rules(case)
        if parts:
            values = evidence.features(parts, rules, case.knowledge, encoder)
            found.append((case, list(values), np.stack(list(values.values()), axis=-1)))
        else:
            found.append((case, [], None))
    return found


def fit(rows, penalty=0.3):
    """Return the weights that separate segments that are asked for from the others, by their nearest part."""
    rows = [row for row in rows if row[2] is not None]
    size = rows[0][2].shape[-1]
    weights = np.ones(size + 1)
    for _ in range(5):
        chosen, labels = [], []
        for case, _, values in rows:
            nearest = (values @ weights[:-1]).argmax(axis=0)
            for at, segment in enumerate(case.knowledge.removed):
                chosen.append([*values[nearest[at], at], 1.0])
                labels.append(float(segment.segment_id in case.asks_for))
        weights = _logistic(np.array(chosen), np.array(labels), penalty)
    return weights


def _logistic(inputs, labels, penalty):
    weights = np.zeros(inputs.shape[1])
    ridge = np.eye(len(weights)) * penalty
    ridge[-1, -1] = 1e-6
    for _ in range(40):
        chance = 1 / (1 + np.exp(-inputs @ weights))
        slope = inputs.T @ (chance - labels) + ridge @ weights
        weights -= np.linalg.solve((inputs.T * (chance * (1 - chance))) @ inputs + ridge, slope)
    return weights


def decided(row, weights, threshold=0.0):
    """Return what the evidence gives: for each part the best segment, if it is sure enough."""
    case, _, values = row
    if values is None:
        return frozenset()
    scores = values @ weights[:-1] + weights[-1]
    return frozenset(
        segment.segment_id
        for score, value in zip(scores, values, strict=True)
        for at, segment in enumerate(case.knowledge.removed)
        if score[at] > threshold and (at == score.argmax() or value[at, 0])
    )


def counted(pairs):
    """Return found, wanted, given, and hostile questions that got something."""
    found = wanted = given = leaks = 0
    for case, got in pairs:
        found += len(got & case.asks_for)
        wanted += len(case.asks_for)
        given += len(got)
        leaks += bool(got) and case.kind in HOSTILE
    return found, wanted, given, leaks


def line(name, pairs):
    """Return one line of figures."""
    found, wanted, given, leaks = counted(pairs)
    share = found / given if given else 1.0
    return f"{name}: found {found} of {wanted} ({found / max(wanted, 1):.3f}), precision {share:.3f}, leaks {leaks}"


def fitted(rows, rounds):
    """Return for thresholds what weights give on variants that they were not fitted to."""
    groups = sorted({row[0].group for row in rows})
    scored = {group: fit([row for row in rows if row[0].group != group]) for group in groups}
    lines = []
    for threshold in rounds:
        pairs = [(row[0], decided(row, scored[row[0].group], threshold)) for row in rows]
        lines.append(line(f"  threshold {threshold:+.2f}", pairs))
    return lines


def main():
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", nargs="+", required=True)
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--wrong", action="store_true")
    chosen = parser.parse_args()
    for name, encoder in (("rules", None), ("encoder", installed_encoder())):
        if chosen.fit:
            sys.stdout.write("\n".join([name, *_fit_report(name, chosen, encoder), ""]))
            continue
        pairs = []
        for idea, options in IDEAS.items():
            cases = load(chosen.questions, chosen.names, **options)
            pairs = [(case, frozenset(asked_segments(case.question, "", case.knowledge, encoder))) for case in cases]
            sys.stdout.write(f"{line(f'{name}, {idea}', pairs)}\n")
        for kind in sorted({case.kind for case, _ in pairs}):
            sys.stdout.write(f"{line(f'  {kind}', [pair for pair in pairs if pair[0].kind == kind])}\n")
        for case, got in pairs if chosen.wrong else ():
            if got != case.asks_for:
                said = f"{case.group} {sorted(case.asks_for)} {sorted(got)} {case.kind}: {case.question}"
                sys.stdout.write(f"    {said}\n")


def _fit_report(name, chosen, encoder):
    rows = [
        row
        for options in ({}, {"only": 2}, {"synonyms": False, "questions": False})
        for row in table(load(chosen.questions, chosen.names, **options), encoder)
    ]
    full = table(load(chosen.questions, chosen.names), encoder)
    weights = fit(rows)
    kinds = next(row[1] for row in rows if row[1])
    return [
        *fitted(full, np.arange(-0.5, 2.1, 0.25)),
        line("  fitted to all, scored on all", [(row[0], decided(row, weights)) for row in full]),
        f"[weights.{name}]",
        *(f"{kind} = {weight:.1f}" for kind, weight in zip([*kinds, "bias"], weights, strict=True)),
    ]


if __name__ == "__main__":
    main()
