"""What is made of a task: removals by the rewriter, decoys, and where wanted chains, controls and environments."""

from collections.abc import Sequence

import msgspec

from generators.beyond.chains import chain_pairs
from generators.beyond.controls import benign_segments, unmodified
from generators.beyond.decoying import DecoyRewriter, with_decoys
from generators.candidates import CandidateSettings, candidates
from generators.planned import Planned
from generators.protocol import Removal, Rewriter, SourceTask
from recorder.values import Segment, Variant

_BENIGN_REMOVALS = 2  # of one task; a control calibrates, more of them tell no more


class Extras(msgspec.Struct, frozen=True, kw_only=True):
    """What is made beside removals."""

    has_chains: bool = False
    has_controls: bool = False
    has_environment: bool = False


def planned_variants(
    source: SourceTask, segments: Sequence[Segment], settings: CandidateSettings, rewriter: Rewriter, extras: Extras
) -> list[Planned]:
    """Return what a rewriter is to make of a task, the removals first.

    Args:
        source: The task.
        segments: Its segments.
        settings: What is removed together, and how; the severity ``decoy`` is made by rules, whoever rewrites.
        rewriter: Makes the others.
        extras: What is wanted beside them.
    """
    prompt = source.task.prompt
    plain = msgspec.structs.replace(settings, severities=tuple(each for each in settings.severities if each != "decoy"))
    planned = [
        Planned(source=source, removal=removal, rewriter=rewriter) for removal in candidates(prompt, segments, plain)
    ]
    if "decoy" in settings.severities:
        planned += _decoys(source, segments, settings)
    if extras.has_chains:
        planned += [
            Planned(source=source, removal=Removal(segments=pair, severity=severity), rewriter=rewriter)
            for pair in chain_pairs(prompt, segments)
            for severity in plain.severities
        ]
    if extras.has_controls:
        planned += [
            Planned(
                source=source,
                removal=Removal(segments=(segment,), severity="delete"),
                rewriter=rewriter,
                origin="control",
            )
            for segment in benign_segments(segments)[:_BENIGN_REMOVALS]
        ]
    return planned


def ready_variants(source: SourceTask, extras: Extras) -> list[Variant]:
    """Return the variants of a task that need no rewriting: its prompt is theirs."""
    ready = [unmodified(source)] if extras.has_controls else []
    return ready + (list(source.changed_workspaces) if extras.has_environment else [])


def _decoys(source: SourceTask, segments: Sequence[Segment], settings: CandidateSettings) -> list[Planned]:
    wrong = msgspec.structs.replace(settings, severities=("decoy",))
    singles = [with_decoys(source, Removal(segments=(segment,), severity="decoy")) for segment in segments]
    replaced = [segment for single in singles if single is not None for segment in single.segments]
    rewriter = DecoyRewriter()
    return [
        Planned(source=source, removal=removal, rewriter=rewriter)
        for removal in candidates(source.task.prompt, replaced, wrong)
    ]
