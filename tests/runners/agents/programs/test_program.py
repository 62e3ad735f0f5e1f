"""Entries: what may stand in them, what their templates become, and what of them is measured."""

import msgspec
import pytest

from lhaw_record.runners.agents.programs.entries import entry_paths
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.decoding import read_program
from lhaw_record.runners.experiment.program import ACP_HOST_VERSION, PLACEHOLDERS, BuiltInSpec, ProgramSpec, filled
from lhaw_record.runners.experiment.validation import program_problems

VALUES = {name: f"<{name}>" for name in PLACEHOLDERS}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("command = []", "key 'command': name the program"),
        ('command = ["a", "{promt}"]', "key 'command[1]': unknown placeholder {promt}; known: {prompt}, {prompt_file}"),
        ('command = ["a", "{prompt!r}"]', "unknown placeholder {prompt!}"),
        ('command = ["a", "{"]', "key 'command[1]': single '{' encountered"),
        ('command = ["a", "}"]', "write a literal brace twice"),
        ('command = ["a", "--mcp", "{mcp_url}"]', "key 'command[2]': {mcp_url} exists only in arms with ask_user"),
        ('command = ["a"]\nenvironment = {"A-B" = "x"}', "'A-B' is not a name of an environment variable"),
        ('command = ["a"]\nfiles = {"../x" = "x"}', "'../x' must be a path below HOME"),
        ('command = ["a"]\nfiles = {"/etc/x" = "x"}', "'/etc/x' must be a path below HOME"),
        ('command = ["a"]\nanswer = "stderr"', "'stderr' is not last_message, stdout or file:PATH"),
        ('command = ["a"]\nanswer = "file:/etc/passwd"', "key 'answer'"),
        ('command = ["a"]\nmounts = ["relative"]', "'relative' must be an absolute path"),
        ('command = ["a"]\nask_user_tool = "consult"', "key 'asks_by': it is \"none\""),
        ('command = ["a"]\nasks_by = "prose"', "set resume = [...] to the command"),
        ('command = ["a"]\nasks_by = "built_in"', '"built_in" needs host = "acp"'),
        ('command = ["a"]\nhost = "acp"\nasks_by = "built_in"', "the name of the program's own tool in built_in.tool"),
        ('command = ["a"]\n[acp]\nmode = "yolo"', "key 'host': it is \"process\""),
        ('command = ["a", "{prompt}"]\nhost = "acp"', "an agent over ACP gets its prompt in its session"),
        ('leased = true\nhost = "acp"', "key 'host': the entry is leased"),
        ('command = ["a"]\n[asking]\ncommand = ["x"]', "key 'asks_by': it is \"none\""),
        ('command = ["a"]\n[threads]\nmain = "("', "key 'threads.main': '(' is not a regular expression"),
        ('command = ["a"]\n[install]\npip = ["x"]', "key 'install.pip': 'x' is not pinned"),
        (
            'command = ["python3", "a.py"]\n[install]\npip = ["x==1"]',
            "key 'command': python3 cannot import the packages of install.pip",
        ),
        ('command = ["a"]\n[install]\npip = ["x>=1"]', "key 'install.pip'"),
        ('command = ["a"]\n[install]\nnpm = ["@a/b@latest"]', "key 'install.npm': '@a/b@latest' is not pinned"),
        ('command = ["a"]\nversion = ["{home}"]', "key 'version[0]': unknown placeholder {home}; known: {bin}"),
        ('command = ["a"]\nfound_version = "1"', "planning an experiment sets this key"),
        ('command = "a"', "key 'command': \"a\", where a list is expected"),
        ('command = ["a"]\ncomand = 1', "unknown key 'comand'"),
        (
            'command = ["a"]\nwire = "grpc"',
            "key 'wire': \"grpc\" is not a choice; the choices are: chat, responses, messages",
        ),
        ("command = [", "not valid TOML"),
    ],
)
def test_what_is_wrong_with_an_entry_is_named(tmp_path, lines, said):
    """The message has the file, the key and the remedy."""
    path = tmp_path / "mine.toml"
    path.write_text(lines)
    with pytest.raises(ExperimentError) as caught:
        read_program(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.thorough
def test_a_missing_entry_is_answered_with_those_beside_it(tmp_path):
    """One sentence names the path once and the file that was meant."""
    with pytest.raises(ExperimentError, match=r"solvr.toml: no such file; no TOML file is there$"):
        read_program(tmp_path / "solvr.toml")
    for name in ("solver.toml", "other.toml"):
        (tmp_path / name).write_text('command = ["a"]')
    with pytest.raises(ExperimentError) as caught:
        read_program(tmp_path / "solvr.toml")
    beside = "the TOML files beside it are: other.toml, solver.toml"
    assert str(caught.value) == f"{tmp_path}/solvr.toml: no such file; did you mean 'solver.toml'?; {beside}"


def test_templates_are_filled_and_braces_stay_braces():
    """Every placeholder has its value, a doubled brace is one, and what looks like a placeholder in a value stays."""
    spec = ProgramSpec(
        command=("run", *(f"{{{name}}}" for name in PLACEHOLDERS if not name.startswith("mcp_"))),
        environment={"BASE": "{base_url}/x"},
        files={"a.json": '{{"key": "{token}"}}'},
    )
    start = filled(spec, {**VALUES, "prompt": "{token} {{"}, has_tools=False)
    assert start.argv[:2] == ("run", "{token} {{")
    assert start.environment == {"BASE": "<base_url>/x"}
    assert start.files == {"a.json": '{"key": "<token>"}'}


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        (("run", "--fast"), ("run", "--fast", "--ask", "<mcp_url>")),
        (("run", "{asking}", "-"), ("run", "--ask", "<mcp_url>", "-")),
    ],
)
def test_what_belongs_to_asking_is_there_in_arms_that_ask_alone(command, argv):
    """Arguments come at their place or last, variables and files over the others."""
    spec = msgspec.convert(
        {
            "command": command,
            "environment": {"A": "plain"},
            "asks_by": "mcp",
            "asking": {"command": ["--ask", "{mcp_url}"], "environment": {"A": "asks"}, "files": {"b": "{mcp_bridge}"}},
        },
        ProgramSpec,
    )
    assert not list(program_problems(spec))
    asks, plain = filled(spec, VALUES, has_tools=True), filled(spec, VALUES, has_tools=False)
    assert (asks.argv, asks.environment, asks.files) == (argv, {"A": "asks"}, {"b": "<mcp_bridge>"})
    assert plain.argv == tuple(word for word in command if word != "{asking}")
    assert (plain.environment, plain.files) == ({"A": "plain"}, {})


@pytest.mark.parametrize(
    ("changes", "is_stdin"),
    [
        ({}, True),
        ({"command": ("a", "{prompt}")}, False),
        ({"environment": {"TASK": "{prompt_file}"}}, False),
        ({"files": {"task.md": "{prompt}"}}, False),
    ],
)
def test_the_prompt_comes_on_standard_input_where_no_template_asks_for_it(changes, is_stdin):
    """One way to the prompt, not two."""
    assert ProgramSpec(**{"command": ("a",), **changes}).takes_prompt_on_stdin == is_stdin


def test_what_is_measured_is_in_the_identity_and_nothing_else():
    """Command, environment, files, wire, answer, asking and version make other trials; folders and packages do not."""
    spec = ProgramSpec(command=("a",), found_version="1")
    changed = {
        "command": ("b",),
        "environment": {"A": "x"},
        "files": {"a": "x"},
        "wire": "chat",
        "answer": "stdout",
        "asks_by": "mcp",
        "host": "acp",
        "built_in": BuiltInSpec(tool="ask"),
        "ask_user_tool": "consult",
        "found_version": "2",
    }
    for name, value in changed.items():
        assert msgspec.structs.replace(spec, **{name: value}).identity() != spec.identity(), name
    assert msgspec.structs.replace(spec, host="acp").identity()["host"] == f"acp/{ACP_HOST_VERSION}"
    for name, value in {"mounts": ("/x",), "version": ("a", "-v"), "about": "x", "name": "x"}.items():
        assert msgspec.structs.replace(spec, **{name: value}).identity() == spec.identity(), name


@pytest.mark.parametrize("name", entry_paths())
def test_a_ready_made_entry_can_be_used(name):
    """It is read without a complaint, says what it is, its wire and its version, and pins what it installs."""
    spec = read_program(entry_paths()[name])
    assert spec.about
    if spec.leased:
        return  # nothing is started here
    assert spec.wire
    assert spec.version
    assert spec.install.pip or spec.install.npm
    for has_tools in (False, True):
        filled(spec, VALUES, has_tools=has_tools)
