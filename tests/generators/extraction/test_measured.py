"""The figures of docs/rules.md hold on the development labels; the test labels are scored by hand, once."""

import asyncio

from lhaw_record.generators.extraction import RuleExtractor
from tests.generators.measure_extractor import RULES, label_scores, main, measure, span_scores
from tests.support.needs import needs

LEAST = {"precision": 0.98, "recall": 0.17}


@needs("published")
def test_precision_and_recall_on_the_development_labels():
    """A change of a rule that loses segments, or finds many that are none, is seen."""
    results = asyncio.run(measure(RuleExtractor(), "development"))
    values = {name: share.value for name, share in span_scores(results, is_exact=False)}
    assert all(values[name] >= least for name, least in LEAST.items()), values
    labels = {name: share.value for name, share in label_scores(results)}
    assert labels["dimension"] >= 0.95, labels


@needs("published")
def test_the_rules_are_what_is_measured_by_default(capsys):
    """The command of the docs needs no name of an extractor."""
    main(["--split", "development"])
    assert capsys.readouterr().out.startswith(f"{RuleExtractor.name} ({RuleExtractor().digest}) on development")
    assert RULES == "lhaw_record.generators.extraction:RuleExtractor"
