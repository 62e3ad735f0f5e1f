"""What the gate says about selected variants, whatever made them."""

import msgspec

from lhaw_record.generators.selection.card import gate_results
from lhaw_record.generators.selection.provenance import ChosenVariant
from lhaw_record.recorder.events import GateJudgement
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment, Variant

ORIGINAL = "Read orders.csv and list the totals. Do not delete anything. Send the list to Ada."
SEGMENT = Segment(segment_id="S1", value="orders.csv", dimension="input", subdimension="any")
ASKED = (ExpectedQuestions(segment_id="S1", questions=("Which file should I read?",)),)


def chosen(prompt, *, original=ORIGINAL, maker="imported", segments=(SEGMENT,), severity="vaguify", **fields):
    """Return a selected variant with this prompt."""
    variant = Variant(
        benchmark="mine",
        task_id="t",
        variant_id=prompt,
        prompt=prompt,
        segments=segments,
        severity=severity,
        origin="imported",
        expected_questions=ASKED,
        **fields,
    )
    return ChosenVariant(variant=variant, ambiguity_class="benign", maker=maker, original=original)


DECOY = msgspec.structs.replace(SEGMENT, decoy="sales.csv")
GOOD = ORIGINAL.replace("orders.csv", "the file")
TURNED = GOOD.replace("Do not", "Do")


def test_every_variant_is_judged_or_named_as_not_to_be_judged():
    """Imported ones and decoys are judged, too; a kept prompt and one of an unknown task cannot be."""
    found = gate_results(
        [
            chosen(GOOD),
            chosen(TURNED),
            chosen(GOOD, maker="written by hand"),
            chosen(TURNED, maker="written by hand"),
            chosen(ORIGINAL.replace("orders", "sales"), severity="decoy", segments=(DECOY,)),
            chosen(ORIGINAL.replace("orders", "sales").replace("Ada", "Bo"), severity="decoy", segments=(DECOY,)),
            chosen(ORIGINAL, segments=()),
            chosen(GOOD, original=None),
        ]
    )
    assert (found.passed, found.failed, found.findings) == (3, 2, {"nothing_else_changed": 2})
    assert sum(found.unjudged.values()) == 3
    assert len(found.unjudged) == 3


def test_severities_with_one_prompt_fail():
    """The same prompt as vague and as generic is found among the chosen variants."""
    twins = [chosen(GOOD, severity=severity) for severity in ("vaguify", "genericize")]
    assert gate_results(twins).findings == {"severities_differ": 2}
    other = msgspec.structs.replace(twins[1].variant, task_id="u")
    assert gate_results([twins[0], msgspec.structs.replace(twins[1], variant=other)]).failed == 0


def test_what_nobody_judged_is_counted_by_point():
    """What a model judged is not unjudged; of a decoy only the text is to be judged, of a kept prompt nothing."""
    judged = ("recoverable_by_paraphrase", "reads_naturally", "several_readings")
    said = GateJudgement(judge="m", judge_digest="1", judged=judged, guesses=3)
    found = gate_results(
        [
            msgspec.structs.replace(chosen(GOOD), judgement=said),
            chosen(GOOD),
            chosen(GOOD, severity="decoy", segments=(DECOY,)),
            chosen(ORIGINAL, segments=()),
        ]
    )
    assert found.judged_by == {"m": 1}
    assert found.left == {
        "recoverable_from_files": 2,
        "recoverable_by_paraphrase": 1,
        "reads_naturally": 2,
        "several_readings": 1,
        "questions_fit": 1,
        "adds_nothing": 1,
    }
