"""A published task folder becomes a task; an agent's files are those that the image gives it, and never a grader's."""

import pytest

from lhaw_record.runners.environments.benchmarks.published import PublishedError
from lhaw_record.runners.environments.benchmarks.tac import is_task_folder, published_points, read_task, task_of


@pytest.fixture
def folder(tmp_path):
    """A task folder of the published form, invented."""
    made = tmp_path / "hr-seating-plan"
    made.mkdir()
    (made / "task.md").write_bytes(b"Seat the guests.\r\nUse plan.csv.\n")
    (made / "checkpoints.md").write_text("## Checkpoint 1 (2pts)\n\nAll sit.\n\n## Checkpoint 2\n\nNobody fell.\n")
    (made / "dependencies.yml").write_text("- owncloud\n- rocketchat")
    (made / "scenarios.json").write_text('{"Ada": {"extra_info": "left handed", "strategy_hint": "be brief"}}')
    (made / "plan.csv").write_text("seat,guest\n")
    (made / "solution.csv").write_text("1,Ada\n")
    (made / "eval_data").mkdir()
    (made / "eval_data" / "seats.csv").write_text("1\n")
    return made


def shown(folder, dockerfile):
    """The files that an agent gets under a Dockerfile: path in the container -> name here."""
    (folder / "Dockerfile").write_text(f"FROM base:1.0.0\n{dockerfile}\n")
    return {target: path.relative_to(folder).as_posix() for target, path in read_task(folder).agent_files.items()}


def test_everything_that_a_folder_says(folder):
    """Prompt to the character, checkpoints with points, services, colleagues."""
    assert is_task_folder(folder)
    published = read_task(folder)
    assert published.task_id == "hr-seating-plan"
    assert published.prompt == "Seat the guests.\r\nUse plan.csv.\n"
    assert published.services == ("owncloud", "rocketchat")
    assert published.colleagues["Ada"].extra_info == "left handed"
    task = task_of(published)
    assert [(each.checkpoint_id, each.label, each.total) for each in task.checkpoints] == [
        ("c1", "All sit.", 2.0),
        ("c2", "Nobody fell.", 1.0),
    ]
    assert (task.benchmark, task.domain) == ("tac", "HR")


def test_without_a_dockerfile_no_file_is_the_agents(folder):
    """What a folder holds beside its task may be the grader's, so nothing of it is shown."""
    assert read_task(folder).agent_files == {}


@pytest.mark.parametrize(
    ("dockerfile", "target"),
    [
        ("COPY plan.csv /workspace", "/workspace/plan.csv"),
        ("COPY plan.csv /workspace/", "/workspace/plan.csv"),
        ("COPY plan.csv .", "/workspace/plan.csv"),
        ("copy ./plan.csv /workspace/in/new.csv", "/workspace/in/new.csv"),
        ('ADD ["plan.csv", "/instruction/"]', "/instruction/plan.csv"),
        ("COPY --chown=1:1 \\\n  plan.csv /workspace", "/workspace/plan.csv"),
        ("COPY plan*.csv /workspace", "/workspace/plan.csv"),
    ],
)
def test_what_is_copied_to_the_agents_directories_is_shown(folder, dockerfile, target):
    """Every way of writing a copy gives the file under the path that it has in the container."""
    assert shown(folder, dockerfile) == {target: "plan.csv"}


@pytest.mark.parametrize(
    "dockerfile",
    [
        "COPY plan.csv /utils",
        "COPY plan.csv /workspace-of-another",
        "COPY scenarios.json /npc",
        "# COPY plan.csv /workspace",
        "COPY --from=build plan.csv /workspace",
        "ADD https://example.org/plan.csv /workspace/",
        "COPY ../outside.csv /workspace",
        "COPY missing.csv /workspace",
    ],
)
def test_what_goes_elsewhere_or_comes_from_elsewhere_is_not_shown(folder, dockerfile):
    """Files of the grader, of the colleagues, of other images and from outside the folder are nobody's to see."""
    (folder.parent / "outside.csv").write_text("secret")
    assert shown(folder, dockerfile) == {}


def test_graders_files_are_hidden_even_where_an_image_gives_them(folder):
    """Solutions, evaluation data, grading text and what colleagues know stay hidden whatever a Dockerfile says."""
    found = shown(folder, "COPY . /workspace")
    assert not {"solution.csv", "eval_data/seats.csv", "checkpoints.md", "scenarios.json"} & set(found.values())
    assert found["/workspace/plan.csv"] == "plan.csv"


def test_the_contents_of_a_folder_go_below_the_target(folder):
    """As Docker does it: a folder's contents are copied, not the folder."""
    (folder / "app").mkdir()
    (folder / "app" / "run.txt").write_text("go")
    assert shown(folder, "COPY app/ /workspace/app/") == {"/workspace/app/run.txt": "app/run.txt"}
    assert shown(folder, "COPY app /workspace") == {"/workspace/run.txt": "app/run.txt"}


def test_a_build_that_changes_the_agents_directory_shows_nothing(folder):
    """Where a later command touches what was copied, it is not known what the agent finds; a remark says so."""
    assert shown(folder, "COPY plan.csv /workspace\nRUN rm /workspace/plan.csv") == {}
    assert "changes the agent's directory" in read_task(folder).remarks[0]


def test_a_link_out_of_the_folder_is_not_shown(folder):
    """A file that only seems to lie in the folder is not the task's."""
    (folder.parent / "outside.csv").write_text("secret")
    (folder / "link.csv").symlink_to(folder.parent / "outside.csv")
    assert shown(folder, "COPY link.csv /workspace") == {}


@pytest.mark.parametrize("text", ["", "\n", "# none\n"])
def test_a_task_may_need_no_service(folder, text):
    """An empty list of services is none."""
    (folder / "dependencies.yml").write_text(text)
    assert read_task(folder).services == ()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("task.md", b"caf\xe9", r"task\.md is not UTF-8 text \(byte 3 is 0xe9\)"),
        ("dependencies.yml", b"owncloud: yes", r"dependencies\.yml: expected a list of services"),
        ("dependencies.yml", b"- [", r"dependencies\.yml is not YAML"),
        ("dependencies.yml", b"- 3", r"dependencies\.yml: expected a list of services"),
        ("scenarios.json", b"[1]", r"scenarios\.json: expected a person's name"),
        ("scenarios.json", b"{", r"scenarios\.json: expected a person's name"),
    ],
)
def test_a_broken_file_is_named(folder, name, content, message):
    """What cannot be read is named with what was expected."""
    (folder / name).write_bytes(content)
    with pytest.raises(PublishedError, match=message):
        read_task(folder)


def test_a_change_of_the_environment_makes_another_task(folder):
    """Services, colleagues and the agent's files are part of a task's identity; a solution is not."""
    (folder / "Dockerfile").write_text("FROM base\nCOPY plan.csv /workspace\n")

    def digest():
        return task_of(read_task(folder)).task_digest

    first = digest()
    (folder / "solution.csv").write_text("2,Ada\n")
    assert digest() == first
    (folder / "plan.csv").write_text("seat,guest,meal\n")
    second = digest()
    (folder / "dependencies.yml").write_text("- owncloud")
    assert len({first, second, digest()}) == 3


def test_published_points_are_of_whole_tasks():
    """The bundled index has every task of the published benchmark once, each worth points."""
    points = published_points()
    assert len(points) == 175
    assert all(value > 0 for value in points.values())
