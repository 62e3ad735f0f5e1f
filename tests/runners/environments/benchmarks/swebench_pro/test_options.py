"""The ``[benchmark]`` table, names of images, and which instances can run: everything that needs no engine."""

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks import open_benchmark
from lhaw_record.runners.environments.benchmarks.published import read_records
from lhaw_record.runners.environments.benchmarks.swebench_pro import instance_of, open_swebench_pro, task_of
from lhaw_record.runners.environments.benchmarks.swebench_pro.instances import (
    PUBLISHED_TEMPLATE,
    PUBLISHED_USER,
    image_name,
    published_tag,
)
from lhaw_record.runners.environments.benchmarks.swebench_pro.scripts import (
    command_before_tests,
    files_of_tests,
    suite_command,
)
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.runners.environments.benchmarks.swebench_pro.test_instances import ROW
from tests.support.needs import needs

REAL = Path(__file__).parents[6] / "shared" / "real" / "swebenchpro"
WHOLE = {
    **ROW,
    "before_repo_set_cmd": "git reset --hard abc\ngit checkout abc \ngit checkout def -- t/a.py 't/b c.py'",
    "selected_test_files_to_run": "['t/a.py', 't/b.py']",
    "patch": "diff --git a/x b/x\n",
}


@pytest.fixture
def folder(tmp_path):
    """Return a folder with one instance and its scripts."""
    write(tmp_path, [WHOLE])
    return tmp_path


def write(folder, rows):
    """Write instances, and scripts for each."""
    (folder / "i.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for row in rows:
        own = folder / "scripts" / row["instance_id"]
        own.mkdir(parents=True, exist_ok=True)
        (own / "run_script.sh").write_text("true\n")
        (own / "parser.py").write_text("pass\n")


def opened(folder, **changes):
    """Open the benchmark of a folder."""
    return open_swebench_pro({"instances": "i.jsonl", "scripts": "scripts", **changes}, folder, GraderSpec())


def test_an_experiment_file_finds_the_benchmark(folder):
    """The name ``swebench_pro`` opens it; paths start at the experiment file; its one instance is a task."""
    found = open_benchmark("swebench_pro", {"instances": ["i.jsonl"], "scripts": "scripts"}, folder, GraderSpec())
    (task,) = found.tasks()
    assert (task.task_id, task.prompt) == (ROW["instance_id"], task_of(instance_of(ROW, "")).prompt)
    assert found.why_not(task.task_id) is None
    assert "/app" in found.system_prompt()
    assert "{" not in found.system_prompt()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scrips": "x"}, r"unknown key 'benchmark\.scrips'; did you mean 'scripts'.*; known: .*instances, scripts"),
        ({"instances": []}, r"key 'benchmark\.instances': \[\], where a list of length >= 1 is expected"),
        ({"instances": "none.jsonl"}, "cannot read .*none.jsonl"),
        ({"scripts": "none"}, "key 'benchmark.scripts': .*none is not a folder"),
        ({"image": "fixed:1"}, r"key 'benchmark.image': 'fixed:1' lacks \{tag\}"),
        ({"test_seconds": 0}, "key 'benchmark.test_seconds'"),
        ({"test_memory_mb": 0}, "key 'benchmark.test_memory_mb'"),
        ({"work_dir": "app"}, "key 'benchmark.work_dir'"),
        ({"history": "future"}, "history"),
    ],
)
def test_a_wrong_option_is_named(folder, changes, message):
    """Each mistake names its key."""
    with pytest.raises(ExperimentError, match=message):
        opened(folder, **changes)


def test_what_cannot_run_is_no_task_and_says_why(folder):
    """Without scripts, or without the columns that say what to run, an instance is left out with its reason."""
    bare = {**ROW, "instance_id": "bare"}
    scriptless = {**WHOLE, "instance_id": "scriptless"}
    led_astray = {**WHOLE, "instance_id": "../scripts"}
    write(folder, [WHOLE, bare])
    rows = [WHOLE, bare, scriptless, led_astray]
    (folder / "i.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark = opened(folder)
    assert [task.task_id for task in benchmark.tasks()] == [ROW["instance_id"]]
    assert "lacks the column before_repo_set_cmd" in benchmark.why_not("bare")
    assert "scriptless/run_script.sh cannot be read" in benchmark.why_not("scriptless")
    assert "cannot name a folder" in benchmark.why_not("../scripts")
    assert benchmark.why_not("stranger") == "no file of instances has it"


def test_nothing_to_run_is_refused_with_the_first_reason(folder):
    """Where no instance can run the error says how many there are, and why the first cannot."""
    (folder / "i.jsonl").write_text(json.dumps({**WHOLE, "instance_id": "other"}) + "\n")
    with pytest.raises(
        ExperimentError, match=r"none of 1 instances can run here; other: .*run_script\.sh cannot be read"
    ):
        opened(folder)


def test_instances_that_cannot_run_are_left_out_by_name(folder):
    """A plan can say which instances it has not, in their order."""
    rows = [{**WHOLE, "instance_id": each} for each in ("b", "a")]
    (folder / "i.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (rows[0], WHOLE, rows[1])))
    benchmark = opened(folder)
    assert benchmark.left_out() == ["b", "a"]


def test_one_instance_in_two_files_must_be_the_same(folder):
    """The same record twice is one instance; another record under the same id names the place."""
    (folder / "j.jsonl").write_text(json.dumps({**WHOLE, "patch": "other"}) + "\n")
    assert len(opened(folder, instances=["i.jsonl", "i.jsonl"]).tasks()) == 1
    with pytest.raises(
        ExperimentError, match=r"key 'benchmark\.instances': .*j\.jsonl, line 1: .* occurs twice with different"
    ):
        opened(folder, instances=["i.jsonl", "j.jsonl"])


def test_what_tests_run_with_is_part_of_a_task(folder):
    """Another script, command, image or history is another task; another time limit or memory is not."""
    (first,) = opened(folder).tasks()
    assert opened(folder, test_seconds=5, test_memory_mb=9).tasks()[0] == first
    changed = [opened(folder, **{key: value}).tasks()[0] for key, value in
               {"user": "me", "history": "published", "work_dir": "/src", "image": "x:{tag}"}.items()]  # fmt: skip
    (folder / "scripts" / ROW["instance_id"] / "parser.py").write_text("other\n")
    changed += opened(folder).tasks()
    assert len({task.environment_digest for task in (first, *changed)}) == 6
    assert {task.prompt for task in changed} == {first.prompt}


@pytest.mark.parametrize(
    ("repo", "instance_id", "tag"),
    [
        ("NodeBB/NodeBB", "instance_NodeBB__NodeBB-4327-vnan", "nodebb.nodebb-NodeBB__NodeBB-4327"),
        ("NodeBB/NodeBB", "instance_NodeBB__NodeBB-4327-vf2c", "nodebb.nodebb-NodeBB__NodeBB-4327-vf2c"),
        ("flipt-io/flipt", "instance_flipt-io__flipt-518e", "flipt-io.flipt-flipt-io__flipt-518e"),
        (
            "element-hq/element-web",
            "instance_element-hq__element-web-1-vnan",
            "element-hq.element-element-hq__element-web-1",
        ),
        (
            "element-hq/element-web",
            "instance_element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan",
            "element-hq.element-web-element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan",
        ),
        ("a/b", "instance_" + "x" * 200, "a.b-" + "x" * 124),
    ],
)
def test_the_published_rule_of_tags(repo, instance_id, tag):
    """Owner and repository in lower case, the id without prefix and empty version, 128 characters at most."""
    instance = instance_of({**ROW, "repo": repo, "instance_id": instance_id, "dockerhub_tag": None}, "")
    assert published_tag(instance) == tag
    assert image_name(instance, PUBLISHED_TEMPLATE, "me") == f"me/sweap-images:{tag}"
    assert image_name(instance, "mirror/{tag}", PUBLISHED_USER) == f"mirror/{tag}"


def test_a_tag_that_is_given_is_taken():
    """The column of tags goes before the rule."""
    assert image_name(instance_of(ROW, ""), PUBLISHED_TEMPLATE, "me") == "me/sweap-images:acme.widget-1"


def test_what_runs_before_and_as_the_tests():
    """The last line only, its files as the shell reads them; the run script gets the files in one word."""
    instance = instance_of(WHOLE, "")
    assert command_before_tests(instance) == "git checkout def -- t/a.py 't/b c.py'"
    assert files_of_tests(instance) == ("t/a.py", "t/b c.py")
    assert " t/a.py,t/b.py > " in suite_command(instance)
    for other in ("", "git checkout def -- 'unclosed", "make tests"):
        assert files_of_tests(instance_of({**WHOLE, "before_repo_set_cmd": other}, "")) == ()


def test_a_published_patch_is_a_reference(folder):
    """Its patch makes an instance's reference; without one there is none."""
    reference = opened(folder).reference(ROW["instance_id"])
    assert [call.name for call in reference.calls] == ["write_file", "bash", "submit"]
    assert reference.calls[0].arguments["content"] == WHOLE["patch"]
    write(folder, [{key: value for key, value in WHOLE.items() if key != "patch"}])
    assert opened(folder).reference(ROW["instance_id"]) is None


def test_the_prompt_keeps_the_solution_secret():
    """Patch and tests are no part of what an agent is shown."""
    task = task_of(instance_of(WHOLE, ""))
    assert "diff --git" not in task.prompt
    assert "test_a" not in task.prompt
    assert "{work_dir}" in data_path("prompts", "swebench_pro.md").read_text()


@needs("published")
def test_real_tags_follow_the_rule():
    """The 27 published rows have the tags that the rule makes of their ids."""
    records = list(read_records(REAL / "rows_openlibrary_27.jsonl"))
    instances = [instance_of(record, place) for place, record in records]
    assert len(instances) == 27
    assert [published_tag(instance) for instance in instances] == [instance.image for instance in instances]
    assert all(instance.test_files for instance in instances)


@needs("published")
def test_real_lists_of_tests_leave_416_of_730_instances():
    """As checkpoints of tasks, more than two fail-to-pass tests are there in 416 of the largest run's 730 instances."""
    with gzip.open(REAL / "instance_tests.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = {row["instance_id"]: row for row in map(json.loads, lines)}
    run = json.loads((REAL / "eval_results/claude-45sonnet-10132025/eval_results.json").read_text(encoding="utf-8"))
    texts = {"problem_statement": "p", "requirements": "", "interface": ""}
    counts = [len(task_of(instance_of({**texts, **rows[name]}, name)).checkpoints) for name in run]
    assert (len(counts), sum(count > 2 for count in counts)) == (730, 416)
    longest = max((msgspec.convert(row["fail_to_pass"], list[str]) for row in rows.values()), key=len)
    assert len(longest) == 4347


def test_an_instance_without_a_failing_test_is_no_task(tmp_path):
    """Every repository would solve it, so it is left out with the reason."""
    write(tmp_path, [WHOLE, {**WHOLE, "instance_id": "empty", "fail_to_pass": []}])
    found = opened(tmp_path)
    assert [task.task_id for task in found.tasks()] == [WHOLE["instance_id"]]
    assert "no fail-to-pass test" in found.why_not("empty")
