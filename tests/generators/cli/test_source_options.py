"""How a source is named on a command line: every argument is used, or refused with what to do."""

import argparse

import pytest

from lhaw_record.generators.cli.source_options import SOURCE_ARGUMENTS, SOURCES, source_of
from lhaw_record.generators.sources.task_checks import CheckedSource
from lhaw_record.runners.base.errors import ExperimentError
from tests.cli.experiments import write_experiment
from tests.generators.sources.own_tasks import RECORD, write_folder, write_lines


def named(*words: object) -> CheckedSource:
    """The source that words of a command line name."""
    parser = argparse.ArgumentParser()
    for each in SOURCE_ARGUMENTS:
        each.add_to(parser)
    return source_of(parser.parse_args([str(word) for word in words]))


def test_every_source_can_be_named(tmp_path):
    """Each source opens from its arguments and knows its benchmark."""
    for name in ("rows.jsonl", "more.jsonl"):
        (tmp_path / name).write_text("")
    given = {
        "desk": [],
        "harbor": ["--from", tmp_path],
        "mcp_atlas": ["--from", tmp_path / "rows.jsonl", "--from", tmp_path / "more.jsonl", "--data", tmp_path],
        "tac": ["--from", tmp_path],
        "swebench_pro": ["--from", tmp_path / "rows.jsonl"],
        "own": ["--from", tmp_path, "--benchmark", "mine"],
        "experiment": ["--from", write_experiment(tmp_path / "e.toml")],
    }
    assert tuple(given) == SOURCES
    assert [named(name, *words).benchmark for name, words in given.items()] == [*SOURCES[:-2], "mine", "desk"]


def test_the_name_of_an_own_benchmark(tmp_path):
    """It is the name that is given, else that of the folder or file; every task carries it."""
    write_folder(tmp_path / "errands")
    assert named("own", "--from", tmp_path / "errands").benchmark == "errands"
    lines = write_lines(tmp_path / "chores.jsonl", RECORD)
    assert named("own", "--from", lines).benchmark == "chores"
    source = named("own", "--from", lines, "--benchmark", "home-2")
    assert [each.task.benchmark for each in source.tasks()] == ["home-2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tac"], r"source tac needs --from PATH: a folder of published task folders"),
        (["own"], r"source own needs --from PATH: your folder or JSON Lines file"),
        (
            ["desk", "--from", "{here}"],
            r"source desk takes no --from, which is for harbor, mcp_atlas, tac, swebench_pro, own",
        ),
        (["tac", "--from", "{here}", "--data", "{here}"], r"source tac takes no --data, which is for mcp_atlas"),
        (["desk", "--benchmark", "x"], r"source desk takes no --benchmark, which is for own"),
        (["own", "--from", "{here}/no"], r"--from .*/no: nothing is there; name your folder"),
        (["tac", "--from", "{here}/a.jsonl"], r"a\.jsonl is not a folder; name a folder of published"),
        (["swebench_pro", "--from", "{here}"], r"is not a file; name a file of published instances"),
        (["mcp_atlas", "--from", "{here}/a.jsonl", "--data", "{here}/no"], r"--data .*/no is not a folder"),
        (["own", "--from", "{here}", "--from", "{here}"], r"source own takes one --from, not 2"),
        (["experiment"], r"source experiment needs --from PATH: an experiment file"),
        (["experiment", "--from", "{here}"], r"is not a file; name an experiment file"),
        (["own", "--from", "{here}", "--benchmark", "desk"], r"'desk' is the name of another benchmark"),
        (["own", "--from", "{here}", "--benchmark", "tac"], r"'tac' is the name of another benchmark"),
        (
            ["own", "--from", "{here}", "--benchmark", "TheAgentCompany"],
            r"is the name of TheAgentCompany in the released",
        ),
        (["own", "--from", "{here}", "--benchmark", "swe-bench-pro"], r"is the name of SWE-Bench Pro in the released"),
        (["own", "--from", "{here}", "--benchmark", "a b"], r"'a b' is not a name; use letters, .* --benchmark NAME"),
    ],
)
def test_arguments_that_do_not_fit(tmp_path, words, message):
    """What is missing, foreign or wrong is refused before anything is read, and the message says what to do."""
    (tmp_path / "a.jsonl").write_text("")
    with pytest.raises(ExperimentError, match=message):
        named(*(word.format(here=tmp_path) for word in words))
