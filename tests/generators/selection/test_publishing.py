"""A selection as files: rows in the published format that come back byte for byte, and a card that says where from."""

import hashlib
import json
import tomllib

import anyio
import msgspec
import pytest
import yaml

from lhaw_record.analytics.errors import UnknownName
from lhaw_record.analytics.exports import dataset_rows
from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.generators.errors import GeneratorError
from lhaw_record.generators.selection import SelectionRequest, select_benchmark
from lhaw_record.generators.selection.publishing import write_card, write_dataset
from lhaw_record.recorder.events import SelectedVariant, VariantGenerated
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment, Variant
from tests.analytics.make_store import Store as Written
from tests.generators.selection.stores import classified, classify, of_every_kind, to_disk
from tests.runners.imports.files import imported

WISH = SelectionRequest(name="mine", benchmark="desk", max_variants=10)


def selected(root, *written, request=WISH):
    """The stores on disk in one, and what was selected there."""
    to_disk(root, *written)
    return anyio.run(lambda: select_benchmark(root, request)).event


def generated(written: Written, variant_id: str, prompt: str, *values: str, **fields) -> None:
    """Record a variant as generation does, with these values removed from task t."""
    task = written.tasks["t"]
    segments = tuple(
        Segment(segment_id=f"S{place}", value=value, dimension="input", subdimension="any", criticality=1.0)
        for place, value in enumerate(values, 1)
    )
    variant = Variant(
        benchmark=written.benchmark,
        task_id="t",
        variant_id=variant_id,
        prompt=prompt,
        segments=segments,
        origin="generated",
        severity="vaguify",
        expected_questions=tuple(
            ExpectedQuestions(segment_id=each.segment_id, questions=("Which?",)) for each in segments
        ),
        **fields,
    )
    written.variants[variant_id] = variant
    made = VariantGenerated(
        variant=variant,
        variant_digest=variant.variant_digest,
        task_digest=task.task_digest,
        rewriter="rules/1",
        rewriter_digest="f" * 64,
        diff="-a\n+b\n",
    )
    written.add(written.run_id, made)


def _register_again(written: Written, variant_id: str) -> None:
    """Register a variant as a run does that uses it: who made it is not said again."""
    variant = written.variants[variant_id]
    written.add(written.run_id, VariantGenerated(variant=variant, variant_digest=variant.variant_digest))


def several_benchmarks() -> list[Written]:
    """Labelled variants of three benchmarks, some with two segments, in several scripts."""
    found = []
    for name in ("tac", "my.tasks", "desk"):
        written = Written(benchmark=name, experiment=f"of-{name}")
        written.task("t")
        generated(
            written, f"{name}/one", "Kürze die Datei …\r\n「報告書」 \U0001f40c", "Größe ≤ 5", ambiguity_class="benign"
        )
        for index, scores in enumerate([(0.0,), (1.0,), (0.0,)]):
            written.trial(f"{name}/one", "underspecified", index, scores=scores, agent="c", role="classifier")
        generated(
            written, f"{name}/two", 'say "this"\\ \t', "  spaced  ", "\u202eright to left", ambiguity_class="divergent"
        )
        found.append(written)
    return found


@pytest.mark.thorough
def test_a_dataset_comes_back_byte_for_byte(tmp_path):
    """Export, import, export: the same bytes, for several benchmarks, two segments, any script; and once more."""
    to_disk(tmp_path / "s", *several_benchmarks())
    first = dataset_rows(tmp_path / "s").to_bytes()
    assert [row["dataset"] for row in json.loads(first)] == ["TheAgentCompany"] * 2 + ["my.tasks"] * 2 + ["desk"] * 2
    assert "「報告書」" in first.decode()
    assert "[(0,), (1,)]" in first.decode()
    content = first
    for name in ("t", "u"):
        (tmp_path / f"{name}.json").write_bytes(content)
        imported("lhaw-dataset", tmp_path / f"{name}.json", tmp_path / name)
        content = dataset_rows(tmp_path / name).to_bytes()
        assert content == first


@pytest.mark.thorough
def test_a_selection_of_each_benchmark_is_one_dataset(tmp_path):
    """Selections of one name are one export; the file of one benchmark has its own rows, in the order of choice."""
    event = selected(tmp_path / "s", *several_benchmarks())
    anyio.run(lambda: select_benchmark(tmp_path / "s", SelectionRequest(name="mine", benchmark="tac")))
    write_dataset(tmp_path / "s", event, tmp_path / "desk.json")
    own = json.loads((tmp_path / "desk.json").read_bytes())
    assert [row["variant_id"] for row in own] == [each.variant_id for each in event.variants]
    both = dataset_rows(tmp_path / "s", selection="mine").document
    assert [row["dataset"] for row in both] == ["desk"] * 2 + ["TheAgentCompany"] * 2
    with pytest.raises(UnknownName, match="no selection 'other' in this store; there are: mine"):
        dataset_rows(tmp_path / "s", selection="other")


@pytest.mark.thorough
def test_rows_have_the_class_and_the_states_of_the_classifier(tmp_path):
    """Chosen for the class that agent d's trials gave: its states, not those of another classifier."""
    written = classified(a1="benign delete goal input")
    for index, scores in enumerate([(0, 1), (1, 0), (0, 0)]):
        written.trial("a1", "underspecified", index, scores=scores, agent="d", role="classifier")
    request = SelectionRequest(name="mine", benchmark="desk", classifier="d")
    event = selected(tmp_path / "s", written, request=request)
    (row,) = write_dataset(tmp_path / "s", event, tmp_path / "d.json").document
    assert json.loads((tmp_path / "d.json").read_bytes()) == [row]
    assert (row["ambiguity_class"], row["terminal_states"]) == ("outcome-critical", "[(0, 0), (0, 1), (1, 0)]")
    assert (row["original_prompt"], row["information_dimension"]) == ("do a", ["goal", "input"])


def test_the_prompt_is_that_of_the_version_it_was_made_from(tmp_path):
    """A later version of the task does not change the row of a variant that was generated from the first, even where
    a run has registered both again.
    """
    written = Written()
    written.task("t")
    generated(written, "v", "do", "this", ambiguity_class="benign")
    old = written.tasks["t"].prompt
    written.start_run()
    new = msgspec.structs.replace(written.tasks["t"], prompt="do t in another way")
    written.register(new)
    _register_again(written, "v")
    to_disk(tmp_path / "s", written)
    (row,) = dataset_rows(tmp_path / "s").document
    assert row["original_prompt"] == old


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    """The folder with the card of a selection from a store with a variant of every kind."""
    folder = tmp_path_factory.mktemp("card")
    written = of_every_kind()
    written.task("t", (1, 1))
    generated(written, "t1", "do", "this", "that")
    classify(written, "t1", [(1, 1)] * 3)
    _register_again(written, "t1")
    event = selected(folder / "s", written)
    write_dataset(folder / "s", event, folder / "rows.json")
    write_card(folder / "s", event, folder / "README.md", "rows.json")
    return folder


def cells(text, head):
    """The rows of the table whose first column has this name."""
    lines = iter(text.splitlines())
    next(line for line in lines if line.startswith(f"| {head} "))
    next(lines)
    found = {}
    for line in lines:
        if not line.startswith("|"):
            return found
        name, *numbers = [cell.strip() for cell in line.strip("|").split("|")]
        found[name] = [int(number) for number in numbers]
    return found


@pytest.mark.thorough
def test_the_card_counts_what_is_in_the_file(card):
    """By class with shortfalls, and by dimension, severity, segments and task; sums are those of the rows."""
    text = (card / "README.md").read_text(encoding="utf-8")
    assert cells(text, "class") == {"outcome-critical": [4, 2, 2], "divergent": [3, 1, 2], "benign": [3, 3, 0]}
    assert cells(text, "dimension") == {
        "goal": [2, 0, 0, 2],
        "constraint": [0, 0, 1, 1],
        "input": [0, 1, 2, 3],
        "context": [0, 0, 1, 1],
    }
    assert cells(text, "severity")["vaguify"] == [0, 1, 1, 2]
    assert cells(text, "segments removed") == {"1": [2, 1, 1, 4], "2": [0, 0, 2, 2]}
    assert cells(text, "task") == {"a": [1, 0, 0, 1], "b": [1, 1, 0, 2], "c": [0, 0, 2, 2], "t": [0, 0, 1, 1]}
    assert len(json.loads((card / "rows.json").read_bytes())) == 6


def test_the_card_says_where_it_comes_from(card):
    """Rewriter, classifier, what could not be chosen or was not judged, licence, digest."""
    text = " ".join((card / "README.md").read_text(encoding="utf-8").split())
    for said in (
        "Prompts of 1 variant: rules/1 (digest ffffffffffff).",
        "Prompts of 5 variants: hand written.",
        "Classes by c: from its trials",
        "at most 10 variants (4 outcome-critical, 3 divergent, 3 benign), seed 0",
        "Unjudged: `",
        "Cannot be chosen: 1 (it became another task, by its label or a judge's verdict).",
        "not recorded: 4 tasks",
        hashlib.sha256((card / "rows.json").read_bytes()).hexdigest(),
    ):
        assert said in text


def test_the_head_of_the_card_is_yaml(card):
    """Hubs read name, licence, size, and where the rows are."""
    _, head, _ = (card / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    found = yaml.safe_load(head)
    assert (found["pretty_name"], found["license"], found["size_categories"]) == ("mine", "unknown", ["n<1K"])
    assert found["configs"] == [{"config_name": "default", "data_files": [{"split": "test", "path": "rows.json"}]}]


def test_the_experiment_file_of_the_card_names_the_dataset(card):
    """It is what an experiment on these variants begins with."""
    text = (card / "README.md").read_text(encoding="utf-8")
    block = text.split("```toml\n")[1].split("```")[0]
    assert tomllib.loads(block) == {"benchmark": {"name": "desk", "variants_from": "rows.json"}}


@pytest.mark.thorough
def test_equal_stores_have_equal_cards(card, tmp_path):
    """The card and the dataset follow from the events: written again they are the same."""
    from lhaw_record.generators.selection import latest_selections
    from lhaw_record.recorder.reading.reader import read_snapshot

    event = latest_selections(read_snapshot(card / "s"))["desk", "mine"]
    write_dataset(card / "s", event, tmp_path / "rows.json")
    write_card(card / "s", event, tmp_path / "README.md", "rows.json")
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (card / path.name).read_bytes()


@pytest.mark.thorough
def test_what_the_format_cannot_hold_is_said(tmp_path):
    """A variant that changes the environment is chosen, stands in no row, and the card says so."""
    written = classified(a1="benign delete goal", b1="benign environment input")
    event = selected(tmp_path / "s", written)
    exported = write_dataset(tmp_path / "s", event, tmp_path / "rows.json")
    assert ([row["variant_id"] for row in exported.document], len(event.variants)) == (["a1"], 2)
    write_card(tmp_path / "s", event, tmp_path / "card.md", "rows.json")
    text = " ".join((tmp_path / "card.md").read_text(encoding="utf-8").split())
    assert "has 1 rows, one per variant" in text
    assert "The other 1 change the environment, not the prompt, and are in the store only." in text


@pytest.mark.thorough
def test_two_benchmarks_may_have_one_variant_id(tmp_path):
    """They are two rows, which an import keeps apart."""
    stores = []
    for name in ("my.tasks", "desk"):
        written = Written(benchmark=name, experiment=f"of-{name}")
        written.task("t")
        generated(written, "same", f"do it for {name}", "this", ambiguity_class="benign")
        stores.append(written)
    to_disk(tmp_path / "s", *stores)
    first = dataset_rows(tmp_path / "s").to_bytes()
    assert [row["dataset"] for row in json.loads(first)] == ["my.tasks", "desk"]
    (tmp_path / "t.json").write_bytes(first)
    imported("lhaw-dataset", tmp_path / "t.json", tmp_path / "t")
    assert dataset_rows(tmp_path / "t").to_bytes() == first


@pytest.mark.thorough
def test_names_are_no_markup(tmp_path):
    """A name with Markdown in it stays what it is, and breaks no table."""
    written = Written()
    written.task("t|`*_x")
    written.tasks["t"] = written.tasks["t|`*_x"]
    written.variant("t|`*_x", "v", "goal", ambiguity_class="benign", classified_by="<b>authors</b>")
    event = selected(tmp_path / "s", written)
    write_card(tmp_path / "s", event, tmp_path / "card.md", "rows.json")
    text = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert r"| t\|\`\*\_x | 0 | 0 | 1 | 1 |" in text
    assert r"Classes by \<b\>authors\</b\>" in text


@pytest.mark.thorough
def test_a_selected_variant_that_is_not_there_is_named(tmp_path):
    """A selection whose store lost a variant has no card."""
    event = selected(tmp_path / "s", classified(a1="benign delete goal"))
    lost = SelectedVariant(variant_id="gone", variant_digest="0", ambiguity_class="benign")
    broken = msgspec.structs.replace(event, variants=(*event.variants, lost))
    with pytest.raises(GeneratorError, match="variant 'gone' is not registered in this store"):
        write_card(tmp_path / "s", broken, tmp_path / "card.md", "rows.json")


@pytest.mark.thorough
def test_reviewers_alone_make_a_benchmark(tmp_path):
    """Without a trial: what enough reviewers accepted is selected and exported, and nothing gives it a class."""
    written = Written(trials=3)
    for task_id in "ab":
        written.task(task_id, (1, 1))
        for name in ("x", "y", "z"):
            written.variant(task_id, f"{task_id}_{name}", "goal", prompt=f"do {task_id} {name}")
    for variant_id in ("a_x", "a_y", "b_x"):
        for reviewer in ("anna", "ben"):
            written.review(variant_id, reviewer, "accepted" if (variant_id, reviewer) != ("a_y", "ben") else "rejected")
    written.review("b_y", "anna", "accepted")
    root = to_disk(tmp_path / "s", written)
    wish = SelectionRequest(name="mine", benchmark="desk", max_variants=5, reviewers=2)
    selection = anyio.run(select_benchmark, root, wish)
    assert {each.variant_id for each in selection.chosen} == {"a_x", "b_x"}
    assert selection.rows() == [
        {"ambiguity_class": "unclassified", "wanted": 2, "available": 2, "chosen": 2, "shortfall": 0}
    ]
    assert selection.offered.excluded == {"not_reviewed": 3, "not_accepted": 1}
    exported = write_dataset(root, selection.event, tmp_path / "mine.json")
    assert [row["ambiguity_class"] for row in json.loads((tmp_path / "mine.json").read_text())] == ["unclassified"] * 2
    assert exported.count == 2
    write_card(root, selection.event, tmp_path / "mine.md", "mine.json")
    assert "No class is known" in (tmp_path / "mine.md").read_text()
    with pytest.raises(GeneratorError, match="no quota can be kept"):
        anyio.run(select_benchmark, root, msgspec.structs.replace(wish, percents={"benign": 100}))
    with open_store(root, only={"ambiguity_classes"}) as connection:
        query = "select count(ambiguity_class) from ambiguity_classes"
        assert connection.execute(query).fetchone() == (0,)
