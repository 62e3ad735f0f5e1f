"""``problems_of``: everything that the rules find against a rewriting. What they cannot judge is never passed."""

from collections.abc import Iterable, Mapping

import msgspec

from lhaw_record.generators.gate.natural import faults
from lhaw_record.generators.gate.questions import question_faults
from lhaw_record.generators.gate.recoverability import additions, told_by_files, values_left
from lhaw_record.generators.gate.single_change import collateral, put_in_place
from lhaw_record.generators.gate.wrong_values import decoy_faults
from lhaw_record.generators.prompts.occurrences import Prompt
from lhaw_record.generators.protocol import Removal, Rewriting
from lhaw_record.recorder.events import FailedCheck
from lhaw_record.recorder.events.values import Segment, Severity


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What stands around a rewriting.

    Attributes:
        segments: All segments of the task.
        files: The texts of the environment's files, by path.
        extents: The passages that a person declared to belong to the removed segments; what they say goes with them.
        siblings: The prompts of the same removal under other severities.
    """

    segments: tuple[Segment, ...] = ()
    files: Mapping[str, str] = {}
    extents: tuple[str, ...] = ()
    siblings: Mapping[Severity, str] = {}


def problems_of(
    original: str, rewriting: Rewriting, removal: Removal, scene: Scene | None = None
) -> tuple[FailedCheck, ...]:
    """Return every finding against a rewriting. If there are none, it may become a variant.

    The messages tell the rewriter what to correct. docs/generating.md lists what is looked for.
    """
    scene = scene or Scene()
    if rewriting.prompt == original:
        return (FailedCheck(check="is_changed", message="the prompt is the same as before; remove the segments"),)
    if not rewriting.prompt.strip():
        return (FailedCheck(check="is_still_a_task", message="the prompt is empty"),)
    before, after = Prompt(original), Prompt(rewriting.prompt)
    if removal.severity == "decoy":
        return _checks(decoy_faults(before, after, removal))
    found = [
        *values_left(before, after, removal),
        *additions(before, after),
        *collateral(before, after, removal, scene.segments, scene.extents),
        *(() if scene.extents else put_in_place(before, after, removal)),  # a person wrote the sentence anew
        *faults(original, rewriting.prompt),
        *question_faults(before, rewriting, removal),
    ]
    for segment in removal.segments:
        told = told_by_files(segment, original, scene.files)
        if told:
            found.append(("files_keep_the_secret", f"{told}, which tells {segment.segment_id}; remove another segment"))
    for severity, prompt in scene.siblings.items():
        if severity != removal.severity and prompt == rewriting.prompt:
            found.append(("severities_differ", f"{severity} gives the same prompt; write a different one"))
    return _checks(found)


def _checks(found: Iterable[tuple[str, str]]) -> tuple[FailedCheck, ...]:
    return tuple(FailedCheck(check=check, message=message) for check, message in dict.fromkeys(found))
