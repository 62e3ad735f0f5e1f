"""HiL-Bench's groups of folders as paired tasks, its user, and its command that asks."""

import json

import anyio
import pytest

from lhaw_record.runners.agents.toolbox import TrialToolbox
from lhaw_record.runners.base.conversation.messages import ToolResult
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.harbor import open_harbor
from lhaw_record.runners.experiment.tables import GraderSpec, UserSimulatorSpec
from lhaw_record.runners.users.ask_user.recorded_user import question_of_command
from lhaw_record.runners.users.simulated_user.llm import simulator_of
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge
from tests.runners.environments.benchmarks.harbor.folders import CONFIG, write_task

BLOCKERS = [
    {
        "id": "greeting_word",
        "type": ["missing parameters"],
        "description": "The request names no word to greet with.",
        "resolution": "Greet with the word hello.\n",
        "example_questions": ["-  Which word should the greeting use?", " "],
    },
    {
        "id": "file_case",
        "type": "contradictory requirements",
        "description": "One sentence wants upper case in the file, another wants lower case.",
        "resolution": "The file is in lower case.",
        "trigger_questions": ["Should the file be in upper case or in lower case?"],
    },
    {
        "id": "line_end",
        "description": "Nothing says how the line ends.",
        "resolution": "The line ends with a newline.",
        "acceptable_questions": ["How should the line end?"],
    },
]
FULL = "Write a greeting.\n" + "\n".join(f"### {each['description']}\n{each['resolution']}" for each in BLOCKERS)
PROMPTS = {"full_info": FULL, "baseline": "Write a greeting.", "ask_human": "Write a greeting. Ask with `ask_human`."}


def write_group(folder, name="swe_0", *, is_flat=False, modes=tuple(PROMPTS), registry=None, has_names=True):
    """Write a group in one of the two published layouts."""
    text = json.dumps({"blockers": BLOCKERS}) if registry is None else registry
    for mode in modes:
        place = folder / (f"hil-bench-{name}-{mode}" if is_flat else f"{name}/{mode}")
        named = f'[task]\nname = "org/hil-bench-{name}-{mode}"\n' if has_names else ""
        write_task(place, config=named + CONFIG, **{"instruction.md": PROMPTS[mode]})
    shared = folder / (f"hil-bench-{name}-ask_human/environment" if is_flat else f"{name}/shared")
    if text:
        (shared / "ask-human-data").mkdir(parents=True)
        (shared / "ask-human-data" / "blocker_registry.json").write_text(text)


def opened(folder):
    return open_harbor({"folder": str(folder)}, folder, GraderSpec())


@pytest.mark.parametrize("is_flat", [False, True])
@pytest.mark.parametrize("has_names", [False, True])
def test_a_group_is_one_task_with_one_variant(tmp_path, is_flat, has_names):
    """Three folders are one task: the prompt of full_info, and that of baseline without what its blockers settle.

    Groups of the other layout, and plain tasks, may lie beside it.
    """
    write_group(tmp_path, is_flat=is_flat, has_names=has_names)
    write_group(tmp_path, "sql_1", is_flat=is_flat, has_names=has_names)
    write_group(tmp_path, "swe_2", is_flat=not is_flat, has_names=has_names)
    write_task(tmp_path / "plain") if is_flat else None
    benchmark = opened(tmp_path)
    names = ["org/hil-bench-sql_1", "org/hil-bench-swe_0"]
    if not has_names:
        names = ["hil-bench-sql_1", "hil-bench-swe_0"] if is_flat else ["sql_1", "swe_0"]
    other = "org/hil-bench-swe_2" if has_names else "swe_2" if is_flat else "hil-bench-swe_2"
    assert sorted(each.task_id for each in benchmark.tasks()) == sorted([*names, other] + ["plain"] * is_flat)
    assert benchmark.left_out() == []
    assert len(benchmark.variants()) == 3
    variant = next(each for each in benchmark.variants() if each.task_id == names[1])
    assert (variant.variant_id, variant.prompt) == (f"{names[1]}/baseline", "Write a greeting.")
    assert next(each for each in benchmark.tasks() if each.task_id == names[1]).prompt == FULL
    assert [(each.segment_id, each.kind, each.subdimension, each.value) for each in variant.segments] == [
        ("greeting_word", "removed", "missing parameters", "Greet with the word hello."),
        ("file_case", "contradiction", "contradictory requirements", "The file is in lower case."),
        ("line_end", "removed", "unknown", "The line ends with a newline."),
    ]
    assert [each.questions for each in variant.expected_questions] == [
        ("Which word should the greeting use?",),
        ("Should the file be in upper case or in lower case?",),
        ("How should the line end?",),
    ]


def test_what_a_registry_and_a_prompt_do_not_share_is_said(tmp_path):
    """A blocker that no prompt mentions is a remark, and so are questions that the rules find only to the letter."""
    odd = {"id": "odd", "description": "x", "resolution": "Nobody says so.", "example_questions": ["What about it?"]}
    write_group(tmp_path, registry=json.dumps({"blockers": [*BLOCKERS, odd]}))
    first, *rest = opened(tmp_path).remarks()
    assert first == "org/hil-bench-swe_0/baseline: the resolution of odd is not in full_info's instruction"
    assert all("of its 4 blockers, the rules find the questions only as people wrote them" in each for each in rest)
    assert rest


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"modes": ("baseline", "ask_human")}, "the group has no folder full_info"),
        ({"modes": ("full_info", "ask_human")}, "the group has no folder baseline"),
        ({"registry": ""}, "the group has no ask-human-data/blocker_registry.json"),
        ({"registry": '{"blockers": [{"id": "a"'}, "blocker_registry.json: "),
        ({"registry": '{"blockers": [{"name": "a"}]}'}, "blocker_registry.json: Object missing required field"),
        ({"registry": '{"blockers": []}'}, "blocker_registry.json has no blockers"),
        ({"registry": json.dumps({"blockers": [BLOCKERS[0]] * 2})}, "the blocker 'greeting_word' is there twice"),
        (
            {"registry": json.dumps({"blockers": [{**BLOCKERS[0], "resolution": " "}]})},
            "the blocker 'greeting_word' has no resolution",
        ),
    ],
)
def test_a_broken_group_is_left_out_by_name(tmp_path, given, message):
    """Half a download is no task, and its reason names the folder or the file."""
    write_group(tmp_path, **given)
    with pytest.raises(ExperimentError, match="no task of"):
        opened(tmp_path)
    write_task(tmp_path / "swe_1" / "plain")
    benchmark = opened(tmp_path)
    assert [each.task_id for each in benchmark.tasks()] == ["swe_1/plain"]
    assert message in benchmark.why_not("swe_0")
    assert str(tmp_path / "swe_0") in benchmark.why_not("swe_0")


def test_the_user_of_hil_bench_gives_one_resolution_at_a_time_and_at_most_three(tmp_path):
    """A resolution comes word for word; two topics at once, none, and a fourth answer are irrelevant."""
    write_group(tmp_path)
    (variant,) = opened(tmp_path).variants()
    user = simulator_of(UserSimulatorSpec(kind="hil_bench"), None, None)
    questions = [each.questions[0] for each in variant.expected_questions]

    def answer(question, count=0):
        known = UserKnowledge.of_variant(FULL, variant)
        known = UserKnowledge(
            **{name: getattr(known, name) for name in known.__struct_fields__} | {"answer_count": count}
        )
        return anyio.run(user.answer, question, "", known)

    assert [answer(each).text for each in questions] == [each.value for each in variant.segments]
    assert answer("What is the weather like?").text == "irrelevant question"
    both = answer(" ".join(questions[:2]))
    assert (both.text, both.revealed, len(both.withheld)) == ("irrelevant question", (), 2)
    assert [answer(questions[0], count).text for count in (2, 3)] == [variant.segments[0].value, "irrelevant question"]


@pytest.mark.parametrize(
    ("command", "question"),
    [
        ('ask_human "Which word?"', "Which word?"),
        ("ask_human 'Upper; or lower?'", "Upper; or lower?"),
        ("  ask_human Which word should it be?", "Which word should it be?"),
        ("ask_human What about '#3'?", "What about #3?"),
        ("ask_human", None),
        ('ask_human ""', None),
        ("ask_human 'no end", None),
        ("ask_human_again x", None),
        ("echo ask_human x", None),
        ('ask_human "Which?" | tee answer', None),
        ('ask_human "Which?" && ls', None),
        ("", None),
        (None, None),
    ],
)
def test_a_command_that_only_asks_is_a_question(command, question):
    """Only a command that does nothing else is a question; the others run in the shell."""
    assert question_of_command(command, "ask_human") == question


def test_an_asking_command_reaches_the_user_where_one_answers():
    """It is recorded as a question with the medium command; without a user, the shell runs it."""

    class Place:
        ask_command = "ask_human"
        tools_are_servers = False
        tools = ()

        async def call(self, name, arguments):
            return ToolResult(text=f"ran {arguments['command']}")

    class User:
        asked = ()

        class tool:  # noqa: N801  as an attribute
            name = "ask_user"

        async def ask(self, arguments, call_id, medium):
            self.asked = (arguments["question"], call_id, medium)
            return ToolResult(text="told")

    async def call(user, command):
        box = TrialToolbox(Place(), user)
        box._names.add("bash")
        return (await box.call("bash", {"command": command}, "c1")).text

    user = User()
    assert anyio.run(call, user, "ask_human 'Which word?'") == "told"
    assert user.asked == ("Which word?", "c1", "command")
    assert anyio.run(call, user, "ls") == "ran ls"
    assert anyio.run(call, None, "ask_human 'Which word?'") == "ran ask_human 'Which word?'"
