"""Scores an extractor on the labelled prompts: ``python -m tests.generators.measure_extractor --help``.

The rule of matching is that of tests/generators/labels/README.md. The extractor sees the prompt and nothing else.
"""

import argparse
import asyncio
import importlib
import sys
from typing import NamedTuple

import numpy as np

from lhaw_record.analytics.statistics.inference import InferenceSettings, Units, estimate
from lhaw_record.generators.errors import ExtractionFailed
from lhaw_record.generators.protocol import Grounding, SourceTask
from lhaw_record.recorder.events.values import Segment, Task
from tests.generators.labelled import SPLITS, LabelledPrompt, read_labels, real_prompts
from tests.generators.matching_spans import Pair, matched

DRAWS, SEED, CONFIDENCE = 2000, 0, 0.95
PROMPT_ONLY = Grounding(has_trajectory=False, has_checkpoints=False, has_environment=False)


class Scored(NamedTuple):
    """One prompt, what the extractor found in it, and which pairs count; ``failure`` is None where it gave a result."""

    labelled: LabelledPrompt
    prompt: str
    predicted: tuple[Segment, ...]
    pairs: list[Pair]
    failure: str | None


class Share(NamedTuple):
    """A ratio of sums over prompts with its bootstrap interval; all None where the denominator is 0."""

    value: float | None
    low: float | None
    high: float | None


async def scored(extractor, labelled, prompt):
    """Return the score of one prompt; an extractor that fails has found nothing."""
    task = Task(
        benchmark=labelled.benchmark,
        benchmark_version="",
        task_id=labelled.task_id,
        prompt=prompt,
        checkpoints=(),
        environment_digest="",
    )
    predicted, failure = (), None
    try:
        predicted = (await extractor.extract(SourceTask(task=task), PROMPT_ONLY, None)).segments
    except ExtractionFailed as error:
        failure = str(error)
    spans = [(each.start, each.end) for each in labelled.segments]
    return Scored(labelled, prompt, predicted, matched(prompt, [each.value for each in predicted], spans), failure)


def share(numerators, denominators):
    """Return sum over sum with the interval of a bootstrap over prompts; both lists have one value per prompt."""
    if not sum(denominators):
        return Share(None, None, None)
    above, below = (np.array(column, dtype=np.float64) for column in (numerators, denominators))
    settings = InferenceSettings(confidence=CONFIDENCE, draws=DRAWS, seed=SEED)
    found = estimate("level", Units(above, below, np.arange(len(above))), settings)
    return Share(sum(numerators) / sum(denominators), found.low, found.high)


def span_scores(results, is_exact):
    """Return precision, recall and F1 of the spans in one reading, as (name, Share)."""
    hits = [sum(pair.is_exact or not is_exact for pair in each.pairs) for each in results]
    predicted = [len(each.predicted) for each in results]
    gold = [len(each.labelled.segments) for each in results]
    both = [one + other for one, other in zip(predicted, gold, strict=True)]
    return [
        ("precision", share(hits, predicted)),
        ("recall", share(hits, gold)),
        ("F1", share([2 * count for count in hits], both)),
    ]


def label_scores(results):
    """Return how often the labels of matched segments are those of the gold, as (name, Share)."""

    def agreement(is_same):
        said = [
            [is_same(each.predicted[pair.predicted], each.labelled.segments[pair.gold]) for pair in each.pairs]
            for each in results
        ]
        return share([sum(one) for one in said], [len(one) for one in said])

    return [
        ("dimension", agreement(lambda one, gold: one.dimension == gold.dimension)),
        (
            "dimension and subdimension",
            agreement(lambda one, gold: (one.dimension, one.subdimension) == (gold.dimension, gold.subdimension)),
        ),
        ("criticality", agreement(lambda one, gold: one.criticality == gold.criticality)),
        ("guessability", agreement(lambda one, gold: one.guessability == gold.guessability)),
    ]


def recall_by(results, key):
    """Return recall by overlap for each value of a label of the gold, largest group first, as (value, count, Share)."""
    counts = {}
    for number, each in enumerate(results):
        found = {pair.gold for pair in each.pairs}
        for place, gold in enumerate(each.labelled.segments):
            hits, all_of_it = counts.setdefault(key(gold), ([0] * len(results), [0] * len(results)))
            hits[number] += place in found
            all_of_it[number] += 1
    ordered = sorted(counts.items(), key=lambda item: (-sum(item[1][1]), item[0]))
    return [(value, sum(all_of_it), share(hits, all_of_it)) for value, (hits, all_of_it) in ordered]


def report(results):
    """Return the tables as lines of Markdown; no text of a prompt."""
    scopes = {"all": results}
    for each in results:
        scopes.setdefault(each.labelled.benchmark, []).append(each)
    lines = [
        "| prompts | reading | count | gold | predicted | measure | value | 95 % |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for scope, group in scopes.items():
        head = f"{len(group)} | {sum(len(e.labelled.segments) for e in group)} | {sum(len(e.predicted) for e in group)}"
        for reading in ("exact", "overlap"):
            for name, value in span_scores(group, reading == "exact"):
                lines.append(f"| {scope} | {reading} | {head} | {name} | {_shown(value)} |")
    lines += ["", "| prompts | label, of segments matched by overlap | right | 95 % |", "|---|---|---|---|"]
    for scope, group in scopes.items():
        lines += [f"| {scope} | {name} | {_shown(value)} |" for name, value in label_scores(group)]
    keys = (
        ("dimension", lambda gold: gold.dimension),
        ("subdimension", lambda gold: f"{gold.dimension}/{gold.subdimension}"),
        ("kind", lambda gold: gold.kind),
    )
    for title, key in keys:
        lines += ["", f"| {title} of the gold | gold | recall by overlap | 95 % |", "|---|---|---|---|"]
        lines += [f"| {value} | {count} | {_shown(recall)} |" for value, count, recall in recall_by(results, key)]
    failed = sum(each.failure is not None for each in results)
    return [*lines, "", f"{failed} of {len(results)} prompts without a result; bootstrap: {DRAWS} draws, seed {SEED}"]


def details(results):
    """Return what was missed by kind, what was found beside the labels, and what was labelled otherwise."""
    missed, lines = {}, []
    for each in results:
        found = {pair.gold for pair in each.pairs}
        for place, gold in enumerate(each.labelled.segments):
            if place not in found:
                text = each.prompt[gold.start : gold.end]
                line = f"- {each.labelled.task_id} {gold.dimension}/{gold.subdimension}: {text!r}"
                missed.setdefault(gold.kind, []).append(line)
    for kind, rows in sorted(missed.items(), key=lambda item: (-len(item[1]), item[0])):
        lines += ["", f"missed, {kind} ({len(rows)})", *rows]
    lines += ["", "found beside the labels"]
    for each in results:
        taken = {pair.predicted for pair in each.pairs}
        others = [one for place, one in enumerate(each.predicted) if place not in taken]
        lines += [f"- {each.labelled.task_id} {one.dimension}/{one.subdimension}: {one.value!r}" for one in others]
    lines += ["", "matched by overlap only, or labelled otherwise: predicted, then gold"]
    for each in results:
        for pair in each.pairs:
            one, gold = each.predicted[pair.predicted], each.labelled.segments[pair.gold]
            labels = (f"{one.dimension}/{one.subdimension}", f"{gold.dimension}/{gold.subdimension}")
            if not pair.is_exact or labels[0] != labels[1]:
                text = each.prompt[gold.start : gold.end]
                lines.append(f"- {each.labelled.task_id}: {one.value!r} {labels[0]} | {text!r} {labels[1]}")
    lines += [
        "",
        "without a result",
        *(f"- {each.labelled.task_id}: {each.failure}" for each in results if each.failure),
    ]
    return lines


async def measure(extractor, split):
    """Return the scores of every prompt of a split, in file order."""
    prompts = real_prompts()
    labels = read_labels(split)
    return [await scored(extractor, each, prompts[each.benchmark, each.task_id]) for each in labels]


def main(arguments=None):
    """Print the figures of one split; its texts only for development."""
    parser = argparse.ArgumentParser(prog="python -m tests.generators.measure_extractor", description=__doc__)
    parser.add_argument(
        "extractor",
        metavar="MODULE:FACTORY",
        help="what is called, without arguments, for the extractor",
    )
    parser.add_argument("--split", choices=SPLITS, required=True)
    parser.add_argument("--details", action="store_true", help="every miss and every false find; development only")
    options = parser.parse_args(arguments)
    if options.details and options.split != "development":
        parser.error(f"--details shows what is in the prompts; {options.split} stays closed, use --split development")
    module, _, factory = options.extractor.partition(":")
    if not factory:
        parser.error(f"{options.extractor}: write MODULE:FACTORY, for example package.module:OpenExtractor")
    extractor = getattr(importlib.import_module(module), factory)()
    results = asyncio.run(measure(extractor, options.split))
    head = f"{extractor.name} ({extractor.digest}) on {options.split}"
    sys.stdout.write("\n".join([head, "", *report(results), *(details(results) if options.details else []), ""]))


def _shown(value):
    """A share and its interval as two cells."""
    if value.value is None:
        return "undefined | "
    return f"{value.value:.3f} | " + ("" if value.low is None else f"{value.low:.3f} to {value.high:.3f}")


if __name__ == "__main__":
    main()
