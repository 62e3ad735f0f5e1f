"""The preview of a task shows what generation would make of it."""

from lhaw_record.generators.generation.preview import preview
from lhaw_record.generators.protocol import Removal
from lhaw_record.generators.rewriting.written import WrittenRewriter
from lhaw_record.generators.sources.desk import DeskSource
from tests.support.generation_model import source_of


async def test_hand_written_passages_are_previewed():
    """A task with rewritings by its author is previewed with these, not with the rules."""
    source = next(iter(DeskSource().tasks()))
    made, _ = await preview(source, 2, ("delete", "vaguify"))
    variants = [each.variant for each in made]
    assert {each.severity for each in variants} == {"delete", "vaguify"}
    for each in variants:
        removal = Removal(segments=each.segments, severity=each.severity)
        assert each.prompt == WrittenRewriter(source).rewriting(removal).prompt


async def test_what_is_refused_is_named_with_the_reason():
    """A removal that the rules cannot write, or that the gate refuses, is not silently missing."""
    made, refused = await preview(source_of("Read sales.csv and put 3 totals into out.csv."), 3, ("delete", "vaguify"))
    assert refused
    assert all(each.reason for each in refused)
    assert {each.variant.variant_id for each in made}.isdisjoint(each.variant_id for each in refused)
