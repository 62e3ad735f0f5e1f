"""Variants from a dataset file or a store stand where the benchmark's own would, or are refused with a reason."""

from pathlib import Path

import anyio
import msgspec
import pytest

from lhaw_record.recorder.events import TaskRegistered
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.decoding import load_experiment
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.experiment.tables import BenchmarkSpec, StoreSpec
from lhaw_record.runners.runs.planning.plan import make_plan
from lhaw_record.runners.runs.planning.variant_sources import has_its_classes, load_variants
from tests.analytics.make_store import Store as Written
from tests.runners.imports.files import dataset_row, write
from tests.runners.judging.stores import on_disk
from tests.support.toy_plan import ListedBenchmark, experiment

BENCHMARK = ListedBenchmark(tasks=3)


def row(task="t0", name="v", **fields):
    """A row of a dataset of the toy benchmark."""
    prompt = {each.task_id: each.prompt for each in BENCHMARK.tasks()}.get(task, "another")
    return dataset_row(
        f"{task}/{name}", **{"original_task": task, "dataset": "toy", "original_prompt": prompt, **fields}
    )


def spec(**fields):
    """A [benchmark] table."""
    return BenchmarkSpec(name="toy", **fields)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a dataset file and a store, in which two experiments have variants and one a selection."""
    folder = tmp_path_factory.mktemp("from")
    write(folder / "rows.json", [row(), row("t1", ambiguity_class="benign"), row("t9"), dataset_row()])
    made, other = Written(benchmark="toy", experiment="made"), Written(benchmark="toy", experiment="other")
    for written in (made, other):
        for task in BENCHMARK.tasks():
            written.register(task)
    made.variant("t0", "t0/made", severity="delete")
    made.variant("t1", "t1/made", severity="vaguify")
    made.variant("t1", "t1/made", "input", severity="vaguify")  # made anew: another variant of that name
    made.select("best", {"t0/made": "benign"})
    made.select("best", {"t1/made": "divergent", "t0/made": "outcome-critical"}, "reference")
    other.variant("t2", "t2/other", ambiguity_class="benign", classified_by="authors")
    other.variant("t2", "t2/other")  # used once more, and its class not said again
    anyio.run(on_disk, folder / "s", made, other)
    return folder


def of_store(folder, store="s", **fields):
    """The variants of the store, chosen by the keys of the table."""
    return load_variants(spec(variants_from=StoreSpec(store=store, **fields)), BENCHMARK, folder)


def test_without_the_key_variants_are_the_benchmarks_own():
    """Nothing is read."""
    assert load_variants(spec(), BENCHMARK, Path("nowhere")) == BENCHMARK.variants()


def test_a_dataset_file_gives_the_variants_of_the_benchmark(folder):
    """Rows of other benchmarks are passed over; class and segments come along; paths start at the experiment file."""
    found = load_variants(spec(variants_from="rows.json", tasks=("t0", "t1")), BENCHMARK, folder)
    assert [(each.variant_id, each.ambiguity_class, each.classified_by) for each in found[:2]] == [
        ("t0/v", "outcome-critical", "lhaw-dataset"),
        ("t1/v", "benign", "lhaw-dataset"),
    ]
    assert found[0].segments[0].value == "since 2001"


def test_a_selection_gives_its_variants_with_their_class(folder):
    """The last of its name, in the order of choice, whole: severity and digest are those that were selected."""
    found = of_store(folder, selection="best")
    assert [(each.variant_id, each.ambiguity_class, each.classified_by, each.severity) for each in found] == [
        ("t1/made", "divergent", "reference", "vaguify"),
        ("t0/made", "outcome-critical", "reference", "delete"),
    ]
    assert found[0].segments[0].dimension == "input"


def test_an_experiment_gives_all_its_variants(folder):
    """Each in its latest version, with a label where it has one."""
    assert [each.variant_id for each in of_store(folder, experiment="made")] == ["t0/made", "t1/made"]
    (other,) = of_store(folder, experiment="other")
    assert (other.variant_id, other.ambiguity_class) == ("t2/other", "benign")


def test_a_class_is_no_part_of_a_trial(folder):
    """The plan with classes has the trials of the plan without."""
    described = experiment(conditions=("underspecified",))
    prompts = Prompts(described, Path(), BENCHMARK.system_prompt())
    found = of_store(folder, selection="best")
    without = [msgspec.structs.replace(each, ambiguity_class=None, classified_by=None) for each in found]
    plans = [make_plan(described, BENCHMARK, prompts, "exact:1", variants) for variants in (found, without)]
    assert [trial.trial_id for trial in plans[0].trials] == [trial.trial_id for trial in plans[1].trials]
    assert "divergent" in {trial.variant.ambiguity_class for trial in plans[0].trials}


def test_they_choose_their_tasks_and_are_chosen_by_name(folder):
    """Full trials of their tasks only, unless tasks are named; an unknown variant is named with those there are."""
    origin = StoreSpec(store="s", selection="best")

    def tasks_of(**fields):
        described = experiment(benchmark=spec(variants_from=origin, **fields), conditions=("full",))
        prompts = Prompts(described, Path(), "")
        variants = load_variants(described.benchmark, BENCHMARK, folder)
        return {trial.task.task_id for trial in make_plan(described, BENCHMARK, prompts, "exact:1", variants).trials}

    assert tasks_of() == {"t0", "t1"}
    assert tasks_of(tasks=("t0", "t2")) == {"t0", "t2"}
    assert tasks_of(variants=("t0/made",)) == {"t0"}
    with pytest.raises(
        ExperimentError, match=r"'benchmark.variants': 't0/v0' is not there; there are: t1/made, t0/made"
    ):
        tasks_of(variants=("t0/v0",))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"selection": "worst"},
            r"variants_from.selection': there is no selection 'worst' of toy; there are: best \(toy\)",
        ),
        ({"experiment": "never"}, r"variants_from.experiment': no variants .* 'never'; there are: made, other"),
        ({"store": "nowhere", "selection": "best"}, r"variants_from.store': .*nowhere is not a store"),
        ({"store": "ftp://x", "selection": "best"}, r"variants_from.store': 'ftp://x' is not a store"),
    ],
)
def test_what_a_store_does_not_have_is_named(folder, fields, message):
    """With what there is instead."""
    with pytest.raises(ExperimentError, match=message):
        of_store(folder, **fields)


def test_files_that_are_none_are_named(folder, tmp_path):
    """A missing file, one that is no dataset, one without this benchmark: each with its own sentence."""
    with pytest.raises(ExperimentError, match=r"there is no file .*gone.json"):
        load_variants(spec(variants_from="gone.json"), BENCHMARK, folder)
    write(tmp_path / "odd.json", [{"variant_id": "v"}])
    with pytest.raises(ExperimentError, match=r"variants_from': odd.json, row 1: column 'original_task' is missing"):
        load_variants(spec(variants_from="odd.json"), BENCHMARK, tmp_path)
    write(tmp_path / "other.json", [dataset_row()])
    with pytest.raises(ExperimentError, match=r"other.json has no variants of toy; it has 1 of mcp_atlas"):
        load_variants(spec(variants_from="other.json"), BENCHMARK, tmp_path)


def test_a_task_that_is_not_there_is_named(folder):
    """Unless the file chooses other tasks or variants; a benchmark that knows why says it."""
    with pytest.raises(
        ExperimentError, match=r"'t9/v' of rows.json is of task 't9', which toy does not have here \(its tasks"
    ):
        load_variants(spec(variants_from="rows.json"), BENCHMARK, folder)
    assert load_variants(spec(variants_from="rows.json", variants=("t1/v",)), BENCHMARK, folder)
    knowing = ListedBenchmark(tasks=3)
    knowing.why_not = lambda task_id: f"no server for {task_id}"
    with pytest.raises(ExperimentError, match=r"\(no server for t9\)"):
        load_variants(spec(variants_from="rows.json"), knowing, folder)


def test_another_prompt_is_another_version(folder, tmp_path):
    """A file and a store are refused alike, with both places and where the prompts part; other tasks stay usable."""
    changed = ListedBenchmark(tasks=3, prompt="Do it on {} today.")
    sentence = (
        r"task 't0' of toy 1 has another prompt than in rows.json, so variant 't0/v' .*\(from character 7: here 'on 0"
    )
    with pytest.raises(ExperimentError, match=sentence):
        load_variants(spec(variants_from="rows.json", tasks=("t0",)), changed, folder)
    with pytest.raises(ExperimentError, match=r"another prompt than in store s, so variant 't1/made'"):
        load_variants(spec(variants_from=StoreSpec(store="s", selection="best")), changed, folder)
    longer = row(original_prompt=BENCHMARK.tasks()[0].prompt + " And more.")
    write(tmp_path / "longer.json", [longer])
    with pytest.raises(ExperimentError, match=r"here 'the end', there ' And more.'"):
        load_variants(spec(variants_from="longer.json"), BENCHMARK, tmp_path)


def test_a_later_version_in_the_store_does_not_hide_the_change(tmp_path):
    """What counts is the task as the experiment had it when the variant was registered, not the latest of the store."""
    before, after = Written(benchmark="toy", experiment="before"), Written(benchmark="toy", experiment="later")
    old = msgspec.structs.replace(BENCHMARK.tasks()[0], prompt="Do it some other day.")
    before.register(old)
    before.variant("t0", "t0/old")
    after.add(after.run_id, TaskRegistered(task=BENCHMARK.tasks()[0], task_digest=BENCHMARK.tasks()[0].task_digest))
    anyio.run(on_disk, tmp_path / "s", before, after)
    with pytest.raises(ExperimentError, match="has another prompt than in store s"):
        load_variants(spec(variants_from=StoreSpec(store="s", experiment="before")), BENCHMARK, tmp_path)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{ store = "s" }', "'benchmark.variants_from': a store needs either 'selection' or 'experiment' with it"),
        ('{ store = "s", selection = "a", experiment = "b" }', "a store needs either 'selection' or 'experiment'"),
        ('{ selection = "a" }', "'benchmark.variants_from.store' is missing"),
        ('{ store = "s", selected = "a" }', "unknown key 'benchmark.variants_from.selected'"),
        ("7", "'benchmark.variants_from'"),
    ],
)
def test_the_key_is_decoded_strictly(tmp_path, value, message):
    """A mistake is named before anything is read."""
    path = tmp_path / "e.toml"
    text = f'name = "e"\nconditions = ["full"]\n[benchmark]\nname = "desk"\nvariants_from = {value}\n'
    path.write_text(f'{text}[[agents]]\nname = "a"\nmodel = "scripted/never"\n', encoding="utf-8")
    with pytest.raises(ExperimentError, match=message):
        load_experiment(path)


def test_a_store_that_selected_them_knows_their_classes(folder):
    """By whatever path it is named; a file, an experiment or another store does not say the class there."""
    create_store(folder / "t")
    selection = spec(variants_from=StoreSpec(store="s", selection="best"))
    assert has_its_classes(folder / "s", selection, folder)
    assert has_its_classes(folder / "t" / ".." / "s", selection, folder)
    assert not has_its_classes(folder / "t", selection, folder)
    assert not has_its_classes(folder / "s", spec(variants_from=StoreSpec(store="s", experiment="made")), folder)
    assert not has_its_classes(folder / "s", spec(variants_from="rows.json"), folder)
