"""OpenHands, SWE-agents, tau-bench and chat messages: what counts once, what is a result, what nobody knows."""

import json

import pytest

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    ModelCalled,
    ModelResponded,
    QuestionAnswered,
    QuestionAsked,
)
from lhaw_record.recorder.events.values import Checkpoint, Task, Variant
from lhaw_record.runners.base.conversation.deltas import rebuild_requests
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.imports import ImportFailed
from lhaw_record.runners.imports.foreign_trial import KnownRecords
from lhaw_record.runners.imports.formats.openai_messages import usage_of
from lhaw_record.runners.models.costs import reported_usage
from tests.runners.imports.files import REAL, broken_claims, imported, parsed, query, write
from tests.runners.imports.formats.test_atif import events
from tests.support.needs import needs

FOREIGN = REAL / "harbor" / "foreign"
JOB = REAL / "harbor" / "jobs"


def happened(number, at, **fields):
    """One event of OpenHands, some seconds after the first."""
    return {"id": number, "timestamp": f"2026-01-01T00:00:{at:02}.500000", "source": "agent", "message": "", **fields}


def metadata(call_id, response):
    """What an action and its observation say of the reply that they belong to."""
    return {"function_name": "execute_bash", "tool_call_id": call_id, "model_response": response}


def response(number, *call_ids):
    """A reply of a model with calls."""
    calls = [{"id": each, "function": {"name": "execute_bash", "arguments": '{"command": "ls"}'}} for each in call_ids]
    return {
        "id": f"r{number}",
        "model": "m",
        "choices": [{"finish_reason": "tool_calls", "message": {"content": "hm", "tool_calls": calls}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}},
    }


def openhands():
    """One reply with two calls, one of which fails, and the end."""
    first, last = response(1, "c1", "c2"), response(2, "c3")
    args = {"command": "ls", "thought": "hm"}
    return [
        happened(0, 0, action="system", args={"content": "Be brief.", "agent_class": "CodeActAgent"}),
        happened(1, 1, source="user", action="message", args={"content": "List crimes."}),
        happened(3, 2, action="run", args=args, tool_call_metadata=metadata("c1", first)),
        happened(4, 4, observation="run", content="a", cause=3, tool_call_metadata=metadata("c1", first)),
        happened(5, 4, action="run", args=args, tool_call_metadata=metadata("c2", first)),
        happened(6, 5, observation="error", content="b", cause=5, tool_call_metadata=metadata("c2", first)),
        happened(7, 6, source="environment", observation="agent_state_changed", content="", extras={}),
        happened(8, 7, action="finish", args={"final_thought": "Two."}, tool_call_metadata=metadata("c3", last)),
    ]


def only(form, content, **options):
    """The one trial of a file."""
    (trial,) = parsed(form, content, **options).trials
    return trial


def of(trial, kind):
    """The events of one type in a trial."""
    return [each for each in trial.trajectory if isinstance(each, kind)]


def test_the_usage_of_a_reply_counts_once():
    """Four events of one reply are one call with two actions, in the words of the model."""
    trial = only("openhands", openhands(), reward=1.0)
    assert [(each.usage.input_tokens, each.usage.cached_input_tokens) for each in of(trial, ModelResponded)] == [
        (10, 4)
    ] * 2
    started = [(each.name, each.arguments_json) for each in of(trial, ActionStarted)]
    assert started == [("execute_bash", '{"command":"ls"}')] * 3
    finished = [(each.result, each.is_error, each.duration_ms) for each in of(trial, ActionFinished)]
    assert finished == [("a", None, 2000.0), ("b", True, 1000.0), (None, None, None)]
    request = rebuild_requests(trial.trajectory)["m2"]
    assert [(each.role, each.content) for each in request] == [
        ("system", "Be brief."),
        ("user", "List crimes."),
        ("assistant", "hm"),
        ("tool", "a"),
        ("tool", "b"),
    ]
    assert (trial.end.final_answer, trial.end.ended_by, trial.end.duration_ms) == ("Two.", "submitted", 7000.0)


@pytest.mark.parametrize("location", range(3, 6))
def test_what_lies_between_the_actions_of_a_reply_changes_nothing(location):
    """The reply is still one call with its usage, two actions and their results."""
    given = openhands()
    given.insert(location, happened(20, 4, source="environment", observation="recall", content=""))
    trial = only("openhands", given, reward=1.0)
    assert [each.usage.input_tokens for each in of(trial, ModelResponded)] == [10, 10]
    assert [each.result for each in of(trial, ActionFinished)] == ["a", "b", None]


def test_the_result_of_event_0_is_kept():
    """The first event has the number 0, and what it brought back names it."""
    given = [
        happened(0, 0, action="run", args={"command": "ls"}),
        happened(1, 1, observation="run", content="a", cause=0),
    ]
    trial = only("openhands", given, task="t", reward=1.0)
    assert [each.result for each in of(trial, ActionFinished)] == ["a"]


def test_a_trajectory_that_names_no_task_is_skipped(tmp_path):
    """Two without a message of the user would be repetitions of one task; ``--task`` says that they are."""
    path = write(tmp_path / "x.json", [{"role": "assistant", "content": "Two."}])
    with pytest.raises(ImportFailed, match="no user message has the task; give it with --task"):
        imported("openai-messages", path, tmp_path / "s", reward=1.0)
    assert imported("openai-messages", path, tmp_path / "s", reward=1.0, task="t").trials == 1


def test_calls_beside_a_message_are_its_actions():
    """``tool_uses`` are calls, with their outputs where there are any; beside blocks they repeat what these say."""
    block = {"type": "tool_use", "id": "1", "name": "ls", "input": {}}
    uses = [{"tool": "ls", "input": {"path": "/"}, "output": {"output": "a"}}, {"tool": "Task", "input": "Look."}]
    messages = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": None, "thinking": "hm", "tool_uses": uses},
        {"role": "assistant", "content": [block], "tool_uses": [{"tool": "ls", "input": {}}] * 2},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "b"}]},
        {"role": "assistant", "content": "Done.", "tool_uses": None},
    ]
    trial = only("openai-messages", {"messages": messages}, reward=1.0)
    made = [(each.kind, each.name, each.arguments_json) for each in of(trial, ActionStarted)]
    assert made[:3] == [("tool", "ls", '{"path":"/"}'), ("tool", "Task", '{"input":"Look."}'), ("tool", "ls", "{}")]
    assert len(made) == 4
    assert [each.result for each in of(trial, ActionFinished)][:3] == ['{"output":"a"}', None, "b"]
    assert "hm" in str(of(trial, ModelResponded)[0].reasoning)


def test_a_run_that_was_cut_has_no_end():
    """The last action has no result, and nobody knows how the run ended; a file that was cut is refused."""
    trial = only("openhands", openhands()[:5], reward=0.0)
    assert [each.result for each in of(trial, ActionFinished)] == ["a", None]
    assert (trial.end.ended_by, trial.end.final_answer) == (None, None)
    with pytest.raises(ImportFailed, match="not a whole JSON document"):
        parsed("openhands", json.dumps(openhands())[:300])
    with pytest.raises(ImportFailed, match="is not JSON, but this format is; was another format meant"):
        parsed("openhands", "Dear diary,\n")
    with pytest.raises(ImportFailed, match="is not a list of events with actions"):
        parsed("openhands", "true\nfalse\n")


def test_an_evaluation_of_openhands_has_a_run_a_line(tmp_path):
    """Each is a trial of the task that it names; rewards are given by the line."""
    rows = [{"instance_id": name, "history": openhands(), "error": None} for name in ("a__1", "a__2")]
    path = write(tmp_path / "output.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    imported("openhands", path, tmp_path / "s", rewards={"output.jsonl:1": 1.0, "output.jsonl:2": 0.0})
    found = query(tmp_path / "s", "select task_id, is_success, action_count from trials order by all")
    assert found == [("a__1", True, 3), ("a__2", False, 3)]
    with pytest.raises(ImportFailed, match=r"output\.jsonl:2 is not a list of events"):
        parsed("openhands", json.dumps(rows[0]) + '\n{"history": []}\n', name="output.jsonl")


@pytest.mark.parametrize("name", ["trajectory", "events"])
def test_an_answer_of_the_server_of_openhands_is_a_run(name):
    answer = {"conversation_id": "c", name: openhands()}
    assert only("openhands", answer, task="t", reward=1.0) == only("openhands", openhands(), task="t", reward=1.0)


def test_messages_of_a_chat():
    """Calls with results, reasoning, the role ``developer``; no tokens, no times, no agent but the one given."""
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"cmd":"ls"}'}}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "List crimes."}]},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "c1", "content": "a"},
        {"role": "assistant", "content": "Two."},
    ]
    for content in (messages, {"messages": messages}):
        trial = only("openai-messages", content, agent="mine", reward=1.0)
        first, last = of(trial, ModelResponded)
        assert (first.reasoning.text, first.usage.input_tokens, last.reasoning, last.text) == ("hm", None, None, "Two.")
        assert (trial.agent, trial.model, trial.task.prompt) == ("mine", "unknown", "List crimes.")
    lines = "\n".join(json.dumps({"messages": messages[:n], "model": "m"}) for n in (5, 2))
    found = parsed("openai-messages", lines, name="x.jsonl", rewards={"x.jsonl:1": 0.5})
    assert [(each.location, each.end.results[0].score) for each in found.trials] == [("x.jsonl:1", 0.5)]
    assert found.skipped[0].reason == "x.jsonl:2: the conversation has no reply"


@pytest.mark.parametrize(
    ("form", "content", "message"),
    [
        ("mini-swe-agent", openhands(), "looks like openhands"),
        ("openhands", {"info": {}, "messages": []}, "looks like mini-swe-agent"),
        ("mini-swe-agent", {"info": {}, "messages": [], "trajectory_format": "mini-swe-agent-9"}, "'mini-swe-agent-9'"),
        ("openai-messages", {"schema_version": "ATIF-v1.7", "agent": {}, "steps": []}, "looks like atif"),
    ],
)
def test_another_format_is_refused(form, content, message, tmp_path):
    """The message says which one it looks like."""
    with pytest.raises(ImportFailed, match=message):
        imported(form, write(tmp_path / "x.json", content), tmp_path / "s")


@needs("published")
@pytest.mark.thorough
def test_a_real_run_of_openhands(tmp_path):
    """The tokens are those of its distinct replies; the cost is cumulative, so no call has one."""
    path = FOREIGN / "openhands_trajectory.json"
    imported("openhands", path, tmp_path / "s", reward=1.0)
    found = [
        each["tool_call_metadata"]["model_response"]
        for each in json.loads(path.read_bytes())
        if "tool_call_metadata" in each
    ]
    usage = {each["id"]: each["usage"] for each in found}
    rows = query(tmp_path / "s", "select agent_input_tokens, agent_output_tokens, action_count, ended_by from trials")
    sums = [sum(each[key] for each in usage.values()) for key in ("prompt_tokens", "completion_tokens")]
    assert (len(found), len(usage)) == (3, 2)
    assert rows == [(*sums, 2, "submitted")]
    assert broken_claims(tmp_path / "s") == []


@needs("published")
@pytest.mark.parametrize(
    ("path", "names"),
    [
        (FOREIGN / "mini-swe-agent-trajectory.json", ["message"] * 3),
        (JOB / "mini-swe-agent/hello-world__5vGycd7/agent/mini-swe-agent.trajectory.json", ["bash"] * 2),
    ],
)
@pytest.mark.thorough
def test_real_runs_of_mini_swe_agent(path, names, tmp_path):
    """Both versions: a call for each that the file counts, and an action for each command."""
    imported("mini-swe-agent", path, tmp_path / "s", reward=1.0)
    given = json.loads(path.read_bytes())
    assert len(events(tmp_path / "s", ModelCalled)) == given["info"]["model_stats"]["api_calls"]
    assert [each.name for each in events(tmp_path / "s", ActionStarted)] == names
    replies = [each["extra"]["response"]["usage"] for each in given["messages"] if each["role"] == "assistant"]
    rows = query(tmp_path / "s", "select agent_input_tokens, agent_output_tokens from trials")
    assert rows == [tuple(sum(each[key] for each in replies) for key in ("prompt_tokens", "completion_tokens"))]
    assert broken_claims(tmp_path / "s") == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("prompt", "totals", "reward", "scores"),
    [
        ("Do it.", (2.0,), 0.5, [1.0]),
        ("Do it.", (1.0, 2.0), 1.0, [1.0, 2.0]),
        ("Do it.", (1.0, 2.0), 0.0, [0.0, 0.0]),
        ("Do it.", (1.0, 2.0), 0.5, None),
        ("Do more.", (2.0,), 1.0, None),
    ],
)
def test_a_trajectory_is_a_trial_of_the_stored_task_or_is_left_out(prompt, totals, reward, scores):
    """The reward is a share of the points; a second version of the task would take the first one's place in tables."""
    checkpoints = tuple(Checkpoint(checkpoint_id=f"c{n}", label="x", total=total) for n, total in enumerate(totals))
    task = Task(
        benchmark="harbor",
        benchmark_version="1",
        task_id="t",
        prompt=prompt + "\n",
        checkpoints=checkpoints,
        environment_digest="e",
    )
    chat = [{"role": "user", "content": "Be kind. Do it."}, {"role": "assistant", "content": "done"}]
    known = KnownRecords(tasks={("harbor", "t"): task})
    found = parsed("openai-messages", chat, known, benchmark="harbor", task="t", reward=reward, agent="a")
    assert [(trial.task, [each.score for each in trial.end.results]) for trial in found.trials] == (
        [] if scores is None else [(task, scores)]
    )
    assert ["does not fit the store's harbor/t" in each.reason for each in found.skipped] == [True] * (scores is None)


_FULL, _PART = "Add crime names to a.txt, sorted.", "Add crime names to a.txt"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("given", "options", "is_taken"),
    [
        (_FULL, {}, True),
        (_PART, {"condition": "underspecified", "variant": "t/v"}, True),
        (f"Be kind. {_PART} Thanks.", {"condition": "underspecified", "variant": "t/v"}, True),
        (f"Be kind. {_FULL}", {"condition": "underspecified", "variant": "t/v"}, False),
        (_PART, {}, False),
    ],
)
def test_a_trajectory_with_another_prompt_of_its_task_is_named_and_left_out(given, options, is_taken):
    """A variant's prompt is a part of the full one: the longest that a trajectory has is what its agent was given."""
    task = Task(
        benchmark="harbor",
        benchmark_version="1",
        task_id="t",
        prompt=_FULL,
        checkpoints=(Checkpoint(checkpoint_id="c0", label="x", total=1.0),),
        environment_digest="e",
    )
    variant = Variant(
        benchmark="harbor", task_id="t", variant_id="t/v", prompt=_PART, segments=(), origin="hand_written"
    )
    chat = [{"role": "user", "content": given}, {"role": "assistant", "content": "done"}]
    known = KnownRecords(tasks={("harbor", "t"): task}, variants={"t/v": variant})
    found = parsed("openai-messages", chat, known, benchmark="harbor", task="t", reward=0.5, agent="a", **options)
    assert [trial.task == task for trial in found.trials] == [True] * is_taken
    wrong = "its prompt is the full prompt" if options else "its prompt is that of t/v"
    assert [wrong in each.reason for each in found.skipped] == [True] * (not is_taken)
    (remark,) = parsed("openai-messages", chat, known, benchmark="harbor", task="tt", agent="a").remarks
    assert remark == "the store has no task tt of harbor; did you mean 't'?"


@pytest.mark.thorough
def test_the_cost_of_a_run_is_its_agents_where_no_call_has_one(tmp_path):
    """mini-swe-agent 1 and OpenHands write what the whole run cost; tables have it, and a cost of 0 is unknown."""
    said = {"role": "assistant", "content": "```bash\nls\n```"}
    for number, total in enumerate((0.25, 0.0)):
        stats = {"instance_cost": total, "api_calls": 1}
        run = {"info": {"model_stats": stats}, "messages": [{"role": "user", "content": f"Go {number}."}, said]}
        imported("mini-swe-agent", write(tmp_path / f"{number}.traj.json", run), tmp_path / "s", reward=1.0)
    paid = [
        *openhands(),
        happened(9, 8, source="agent", observation="x", content="", llm_metrics={"accumulated_cost": 2}),
    ]
    imported("openhands", write(tmp_path / "o.json", paid), tmp_path / "s", reward=1.0)
    costs = query(tmp_path / "s", "select agent_cost_usd from trials order by all nulls last")
    assert costs == [(0.25,), (2.0,), (None,)]


def asked(*calls):
    """A reply of a model with calls of ``bash``, by their ids."""
    functions = [{"name": "bash", "arguments": json.dumps({"c": number})} for number in range(len(calls))]
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": each, "function": function} for each, function in zip(calls, functions, strict=True)],
    }


def told(call_id, text):
    """The result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


@pytest.mark.parametrize(
    ("messages", "results"),
    [
        ([asked("a", "a"), told("a", "1"), told("a", "2"), asked("a"), told("a", "3")], ["1", "2", "3"]),
        ([asked("", ""), told("", "1"), told("", "2")], ["1", "2"]),
        ([asked("a", "b"), told("b", "2"), told("a", "1")], ["1", "2"]),
        ([asked("a"), asked("a"), told("a", "2")], [None, "2"]),
        ([asked("a", "b"), asked("c"), told("b", "2"), told("c", "3")], [None, "2", "3"]),
        ([asked("a", "b"), {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}], ["1", "2"]),
    ],
    ids=["repeated", "empty", "other order", "the latest reply", "later", "without ids"],
)
def test_results_belong_to_calls_by_id_and_by_order_where_ids_repeat(messages, results):
    """As on the paths of our own trials; a result that is missing leaves the others where they are."""
    trial = only("openai-messages", [{"role": "user", "content": "x"}, *messages], reward=1.0)
    assert [each.result for each in of(trial, ActionFinished)] == results


def test_a_result_of_no_call_is_said():
    """It stays in the conversation, and the import says that no action has it."""
    found = parsed("openai-messages", [{"role": "user", "content": "x"}, asked("a"), told("b", "?")], reward=1.0)
    assert any("belong to no call" in each for each in found.remarks)


BLOCKS = [
    {"role": "user", "content": "Count."},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "ok"},
            {"type": "tool_use", "id": "t", "name": "bash", "input": {"c": 0}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "one"}], "is_error": True},
            {"type": "text", "text": "go on"},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "end"}]},
]
ITEMS = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Count."}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"type": "function_call", "call_id": "t", "name": "bash", "arguments": '{"c":0}'},
    {"type": "function_call_output", "call_id": "t", "output": "one"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "end"}]},
]
INSPECT = [
    {"role": "user", "content": {"type": "text", "text": "Count."}},
    {
        "role": "assistant",
        "content": [{"type": "reasoning", "reasoning": "hm"}],
        "tool_calls": [{"id": "t", "function": "bash", "arguments": {"c": 0}}],
    },
    {"role": "tool", "tool_call_id": "t", "content": "one"},
    {"role": "assistant", "content": "end"},
]
OLD = [
    {"role": "user", "content": "Count."},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "function_call": {"name": "bash", "arguments": '{"c":0}'},
    },
    {"role": "function", "name": "bash", "content": "one"},
    {"role": "assistant", "content": "end"},
]


@pytest.mark.parametrize("messages", [BLOCKS, ITEMS, INSPECT, OLD], ids=["blocks", "items", "inspect", "functions"])
def test_every_form_of_messages_gives_the_same_actions(messages):
    """Anthropic's blocks, the items of OpenAI's Responses, inspect_ai's spelling and the first function calls."""
    found = parsed("openai-messages", messages, reward=1.0)
    (trial,) = found.trials
    assert (trial.task.prompt, trial.end.final_answer, found.remarks) == ("Count.", "end", ())
    assert [(each.kind, each.name, each.arguments_json) for each in of(trial, ActionStarted)] == [
        ("tool", "bash", '{"c":0}'),
        ("text", "message", "{}"),
    ]
    first = of(trial, ActionFinished)[0]
    assert (first.result, first.is_error) == ("one", True if messages is BLOCKS else None)
    assert of(trial, ModelResponded)[0].reasoning.text == "hm"


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}, "image_url"),
        ({"type": "image", "source": {"type": "base64", "data": "AA=="}}, "image"),
        ({"type": "input_audio", "input_audio": {}}, "input_audio"),
        ({"type": "server_tool_use", "id": "s", "name": "search", "input": {}}, "server_tool_use"),
        ({"inlineData": {}}, "part"),
    ],
)
def test_a_part_that_is_not_kept_is_counted(part, kind):
    """Pictures, sounds and unknown parts have at most a name in the text, and the import says so."""
    for role in ("user", "assistant"):
        messages = [
            {"role": "user", "content": "x"},
            {"role": role, "content": [part]},
            {"role": "assistant", "content": "y"},
        ]
        assert parsed("openai-messages", messages, reward=1.0).remarks == (f"parts of type {kind} are not kept",)


@pytest.mark.parametrize(
    "message", [{"type": "user", "message": {}}, {"role": "model", "parts": []}, {"role": "critic"}]
)
def test_a_message_in_another_form_is_refused(message):
    """What a message is must be known, or the conversation is left out with the reason."""
    found = parsed(
        "openai-messages", [[{"role": "user", "content": "x"}, message, {"role": "assistant", "content": "y"}]]
    )
    assert found.trials == ()
    assert "a message has the" in found.skipped[0].reason


@pytest.mark.thorough
def test_the_same_prompt_without_a_name_is_no_repetition(tmp_path):
    """Tasks may begin alike: files without a name of task or run are not taken for trials of one task."""
    for name in ("a", "b"):
        chat = [{"role": "user", "content": "x"}, {"role": "assistant", "content": name}]
        write(tmp_path / "runs" / f"{name}.json", chat)
    with pytest.raises(ImportFailed, match="same prompt"):
        imported("openai-messages", tmp_path / "runs", tmp_path / "s")
    imported("openai-messages", tmp_path / "runs", tmp_path / "one", task="t")
    imported("openai-messages", tmp_path / "runs", tmp_path / "two", task="{file}")
    rows = "select task_id, trial_index from trials order by all"
    assert query(tmp_path / "one", rows) == [("t", 0), ("t", 1)]
    assert query(tmp_path / "two", rows) == [("a", 0), ("b", 0)]


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 11}, (23, 7, 11)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, (9, 4, None)),
        ({"prompt_tokens": 9, "cache_read_input_tokens": 4}, (9, 4, None)),
        ({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2}}, (9, 4, 2)),
        ({"promptTokenCount": 9, "cachedContentTokenCount": 4}, (9, 4, None)),
    ],
)
def test_a_reply_has_the_same_usage_live_and_imported(usage, counts):
    """One table says under which name each provider reports its tokens: imports lacked DeepSeek's and Gemini's."""
    message = Message(role="assistant", content="x")
    names = ("input_tokens", "cached_input_tokens", "cache_write_tokens")
    live, imported = reported_usage(message, usage), usage_of(message, {"usage": usage})
    assert (live, tuple(getattr(live, name) for name in names)) == (imported, counts)


def unparsed(cost=0.03):
    """The message after a reply of mini-swe-agent's model that it could not use."""
    usage = {"prompt_tokens": 300, "completion_tokens": 200}
    reply = {"model": "m", "usage": usage, "choices": [{"message": {"role": "assistant", "content": "42"}}]}
    return {
        "role": "user",
        "content": "No tool calls.",
        "extra": {"interrupt_type": "FormatError", "cost": cost, "response": reply},
    }


def responses_of_mini_swe_agent():
    """Its trajectory with a model of OpenAI's Responses."""
    calls = [
        {"type": "function_call", "call_id": f"c{n}", "name": "bash", "arguments": '{"command":"ls"}'} for n in (1, 2)
    ]
    usage = {"input_tokens": 100, "output_tokens": 10, "input_tokens_details": {"cached_tokens": 40}}
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "x"}]
    for call in calls:
        reply = {
            "object": "response",
            "model": "m",
            "output": [{"type": "reasoning", "summary": []}, call],
            "usage": usage,
        }
        messages.append({**reply, "extra": {"cost": 0.01, "timestamp": 1767225600.5}})
        messages.append({"type": "function_call_output", "call_id": call["call_id"], "output": call["call_id"]})
    return {
        "info": {"model_stats": {"instance_cost": 0.02}},
        "messages": messages,
        "trajectory_format": "mini-swe-agent-1.1",
    }


@pytest.mark.thorough
def test_mini_swe_agent_with_responses(tmp_path):
    """Its replies are whole responses; tokens, results and times are where that form has them."""
    trial = only("mini-swe-agent", responses_of_mini_swe_agent(), reward=1.0)
    assert [(each.name, each.arguments_json) for each in of(trial, ActionStarted)] == [("bash", '{"command":"ls"}')] * 2
    assert [each.result for each in of(trial, ActionFinished)] == ["c1", "c2"]
    assert {(each.usage.input_tokens, each.usage.cached_input_tokens) for each in of(trial, ModelResponded)} == {
        (100, 40)
    }
    imported("mini-swe-agent", write(tmp_path / "a.traj.json", responses_of_mini_swe_agent()), tmp_path / "s")
    assert query(tmp_path / "s", "select started_at_us from trials") == [(1767225600500000,)]


@pytest.mark.thorough
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("total", "cost"), [(0.05, 0.05), (0.5, 0.5), (0, 0.05)])
def test_a_reply_that_could_not_be_used_was_paid_for(tmp_path, total, cost):
    """It is a call and no action; where a run's total differs from its calls, the total counts and a remark says so."""
    given = responses_of_mini_swe_agent()
    given["messages"].insert(4, unparsed())
    given["info"]["model_stats"]["instance_cost"] = total
    remarks = parsed("mini-swe-agent", given).remarks
    assert [each.partition(" ")[0] for each in remarks] == (["cost_usd"] if total == 0.5 else [])
    imported("mini-swe-agent", write(tmp_path / "a.traj.json", given), tmp_path / "s", reward=1.0)
    rows = "select action_count, agent_input_tokens, agent_output_tokens, agent_cost_usd from trials"
    assert query(tmp_path / "s", rows) == [(2, 500, 220, cost)]
    assert broken_claims(tmp_path / "s") == []


def test_a_trajectory_that_is_not_understood_leaves_the_others(tmp_path):
    """One file in another form is left out with its reason; the folder is imported."""
    write(tmp_path / "runs" / "a.traj.json", responses_of_mini_swe_agent())
    write(tmp_path / "runs" / "b.traj.json", {"info": {}, "messages": [{"role": "critic"}]})
    done = imported("mini-swe-agent", tmp_path / "runs", tmp_path / "s")
    assert (done.trials, [each.count for file in done.files for each in file.skipped]) == (1, [1])


def of_sdk(kind, number, source="agent", **fields):
    """One event of OpenHands' SDK."""
    return {"id": f"e{number}", "timestamp": f"2026-01-01T00:00:{number:02}", "source": source, "kind": kind, **fields}


def acted(number, name, arguments, reply="r1", **fields):
    """An action of the SDK, as the model wrote it, and as the SDK understood it."""
    call = {"id": "call_0", "name": name, "arguments": json.dumps(arguments), "origin": "completion"}
    made = {**arguments, "kind": f"{name.title()}Action"}
    same = {"tool_name": name, "tool_call_id": "call_0", "tool_call": call, "llm_response_id": reply, "action": made}
    same["thought"] = [{"type": "text", "text": "hm"}]
    return of_sdk("ActionEvent", number, **{**same, **fields})


def observed(number, action, text, **fields):
    """A result of the SDK."""
    seen = {"content": [{"type": "text", "text": text}], "is_error": False, "kind": "TerminalObservation"}
    more = {"tool_name": "terminal", "tool_call_id": "call_0", "action_id": action, "observation": seen}
    return of_sdk("ObservationEvent", number, "environment", **{**more, **fields})


def sdk_events():
    """Two parallel calls with the same id, one of which the user rejects, one that fails, and the end."""
    said = {"role": "user", "content": [{"type": "text", "text": "List crimes."}]}
    return [
        of_sdk("SystemPromptEvent", 0, system_prompt={"type": "text", "text": "Be brief."}, tools=[]),
        of_sdk("MessageEvent", 1, "user", llm_message=said, activated_skills=[], extended_content=[]),
        acted(2, "terminal", {"command": "a"}),
        acted(3, "terminal", {"command": "b"}, thought=[]),
        of_sdk("UserRejectObservation", 4, "user", tool_call_id="call_0", action_id="e3", rejection_reason="no"),
        observed(5, "e2", "A"),
        acted(6, "terminal", {}, "r2", action=None),
        of_sdk("AgentErrorEvent", 7, tool_call_id="call_0", error="no command"),
        of_sdk("CondensationRequest", 8, "environment"),
        acted(9, "finish", {"message": "Done."}, "r3"),
    ]


def test_events_of_the_sdk_are_actions(tmp_path):
    """Calls as the model wrote them, results by their actions, the run's usage, and what is not kept is counted."""
    usages = [
        {"response_id": f"r{n}", "prompt_tokens": 10, "completion_tokens": 2, "cache_read_tokens": 4} for n in (1, 2, 3)
    ]
    total = {"prompt_tokens": 40, "completion_tokens": 6, "cache_read_tokens": 12}
    metrics = {"accumulated_cost": 0.12, "accumulated_token_usage": total, "token_usages": usages}
    row = {"instance_id": "i", "history": sdk_events(), "metrics": metrics, "metadata": {"llm": {"model": "p/m"}}}
    found = parsed("openhands", json.dumps(row), name="output.jsonl", reward=1.0)
    (trial,) = found.trials
    assert (trial.task.task_id, trial.task.prompt, trial.model, trial.end.final_answer) == (
        "i",
        "List crimes.",
        "p/m",
        "Done.",
    )
    assert [(each.name, each.arguments_json) for each in of(trial, ActionStarted)] == [
        ("terminal", '{"command":"a"}'),
        ("terminal", '{"command":"b"}'),
        ("terminal", "{}"),
        ("finish", '{"message":"Done."}'),
    ]
    assert [(each.result, each.is_error) for each in of(trial, ActionFinished)] == [
        ("A", False),
        ("no", True),
        ("no command", True),
        (None, None),
    ]
    assert [(each.usage.input_tokens, each.usage.cached_input_tokens) for each in of(trial, ModelResponded)] == [
        (10, 4)
    ] * 3
    assert found.remarks == (
        "events of kind CondensationRequest are not kept",
        "input_tokens is 40 for the run and 30 for its model calls; the run's is kept",
    )
    imported("openhands", write(tmp_path / "output.jsonl", json.dumps(row)), tmp_path / "s", reward=1.0)
    rows = "select agent_input_tokens, agent_output_tokens, agent_cost_usd, started_at_us from trials"
    assert query(tmp_path / "s", rows) == [(40, 6, 0.12, 1767225600000000)]
    assert broken_claims(tmp_path / "s") == []


@pytest.mark.thorough
def test_a_folder_of_single_events_is_a_conversation(tmp_path):
    """The SDK keeps them so; what their state says of model and usage counts, and each folder is a trial."""
    used = {"accumulated_cost": 0.12, "accumulated_token_usage": {"prompt_tokens": 40, "completion_tokens": 6}}
    state = {"id": "c", "agent": {"llm": {"model": "p/m"}}, "stats": {"usage_to_metrics": {"agent": used}}}
    for name in ("one", "two"):
        write(tmp_path / "kept" / name / "base_state.json", json.dumps(state))
        for number, event in enumerate(sdk_events()):
            write(tmp_path / "kept" / name / "events" / f"event-{number:05}-{event['id']}.json", json.dumps(event))
    rewards = {"one/base_state.json": 1.0, "two/base_state.json": 0.0}
    imported("openhands", tmp_path / "kept", tmp_path / "s", benchmark="b", task="t", rewards=rewards)
    row = {"history": sdk_events(), "metadata": state["agent"], "metrics": used}
    imported("openhands", write(tmp_path / "list.jsonl", row), tmp_path / "l", benchmark="b", task="t", reward=1.0)
    columns = "select model, agent_cost_usd, agent_input_tokens, ended_by, is_success from trials"
    (whole,) = query(tmp_path / "l", columns)
    assert whole[1:4] == (0.12, 40, "submitted")
    assert whole[0] == "p/m"
    assert sorted(query(tmp_path / "s", columns)) == [(*whole[:-1], False), whole]


def test_usage_may_be_told_by_an_event():
    """The events of a conversation of the SDK have its usage by purpose, cumulative."""
    used = {"accumulated_cost": 0.5, "accumulated_token_usage": {"prompt_tokens": 7, "completion_tokens": 1}}
    told_so_far = of_sdk(
        "ConversationStateUpdateEvent", 10, key="stats", value={"usage_to_metrics": {"a": used, "b": used}}
    )
    trial = only("openhands", [*sdk_events(), told_so_far], reward=1.0)
    assert (trial.end.usage.cost_usd, trial.end.usage.input_tokens) == (1.0, 14)


def test_another_agent_behind_openhands_is_left_out():
    """What an agent of the Agent Client Protocol did is in its own trajectory."""
    found = parsed("openhands", [*sdk_events(), of_sdk("ACPToolCallEvent", 10, tool_call_id="x", title="t")])
    assert "Agent Client Protocol" in found.skipped[0].reason


def test_events_are_known_by_their_shape():
    """One truthy key is none: an action that is an object does not make a list one of OpenHands."""
    with pytest.raises(ImportFailed, match="not an OpenHands trajectory"):
        parsed("openhands", [{"action": {"command": "ls"}, "source": "agent"}])


def swe_agent(*, has_tools):
    """A run of two commands, the last of which is a step that the history does not have."""
    call = {"id": "c1", "type": "function", "function": {"name": "find_file", "arguments": '{"file_name":"a.py"}'}}
    history = [
        {"role": "system", "content": "Be brief.", "agent": "main", "message_type": "system_prompt"},
        {"role": "user", "content": "A demonstration.", "agent": "main", "is_demo": True},
        {"role": "user", "content": "Mend a.py.", "agent": "main", "message_type": "observation"},
        {"role": "assistant", "content": "I look.", "action": "find_file a.py", "tool_calls": [call] * has_tools},
        {"role": "tool", "content": "a.py", "tool_call_ids": ["c1"]}
        if has_tools
        else {"role": "user", "content": "a.py"},
    ]
    steps = [
        {"action": "find_file a.py", "observation": "a.py", "response": "I look."},
        {"action": "submit --now", "observation": "diff", "response": "Done."},
    ]
    stats = {"instance_cost": 0.5, "tokens_sent": 70, "tokens_received": 7, "api_calls": 2}
    info = {"exit_status": "submitted (exit_cost)", "submission": "diff", "model_stats": stats}
    return {"environment": "main", "history": history, "trajectory": steps, "info": info}


@pytest.mark.parametrize(
    ("has_tools", "actions"),
    [
        (True, [("find_file", '{"file_name":"a.py"}'), ("submit", '{"command":"--now"}')]),
        (False, [("message", "{}"), ("message", "{}")]),
    ],
)
def test_a_run_of_swe_agent_has_an_action_a_step(has_tools, actions):
    """Also steps that its history lacks, with the run's totals; a demonstration is not the task's prompt."""
    found = parsed("swe-agent", swe_agent(has_tools=has_tools), name="org__repo-1.traj", reward=1.0)
    (trial,) = found.trials
    assert (trial.task.task_id, trial.task.prompt) == ("org__repo-1", "Mend a.py.")
    assert [(each.name, each.arguments_json) for each in of(trial, ActionStarted)] == actions
    assert [each.result for each in of(trial, ActionFinished)][-1:] == (["diff"] if has_tools else [""])
    assert trial.end.ended_by == "cost_limit"
    assert (trial.end.usage.cost_usd, trial.end.usage.input_tokens) == (0.5, 70)
    assert found.remarks == ("messages of a demonstration are not kept",)


def test_totals_of_a_replayed_run_of_swe_agent_are_unknown():
    """Who calls no model pays nothing: its zeros say nothing about the run."""
    given = swe_agent(has_tools=True)
    given["info"]["model_stats"] = dict.fromkeys(given["info"]["model_stats"], 0)
    usage = only("swe-agent", given, reward=1.0).end.usage
    assert (usage.cost_usd, usage.input_tokens) == (None, None)


TALK = [
    {"role": "system", "content": "# Airline Agent Policy\nHelp."},
    {"role": "user", "content": "I want to fly."},
    {"role": "assistant", "content": "Where do you want to go?"},
    {"role": "user", "content": "To Lima."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "book", "arguments": '{"to":"Lima"}'}}],
    },
    {"role": "tool", "content": "booked", "tool_call_id": "c1", "name": "book"},
    {"role": "assistant", "content": "It is booked."},
]


def test_runs_of_tau_bench_are_trials_with_their_rewards():
    """Runs of a task are repetitions, the prompt is what the user was told, and prose questions have their answers."""
    told = {"task": {"instruction": "You want to fly to Lima."}}
    runs = [{"task_id": 3, "trial": trial, "reward": 1.0 - trial, "info": told, "traj": TALK} for trial in (0, 1)]
    first, second = parsed("tau-bench", runs).trials
    assert (first.task.task_id, first.task.prompt) == ("airline/3", "You want to fly to Lima.")
    assert [(each.first_index, each.end.is_success) for each in (first, second)] == [(0, True), (1, False)]
    assert [each.name for each in of(first, ActionStarted)] == ["message", "book", "message"]
    (asked,) = of(first, QuestionAsked)
    (answered,) = of(first, QuestionAnswered)
    assert (asked.question, asked.medium, answered.answer) == ("Where do you want to go?", "prose", "To Lima.")


@pytest.mark.parametrize(
    ("key", "value", "reason"), [("trial", "x", "trial is 'x'"), ("reward", 5, "its reward is 5,")]
)
def test_a_run_that_does_not_fit_is_left_out(key, value, reason):
    """With the reason, beside those that do: a result outside 0 to 1 is no score."""
    run = {"task_id": 3, "trial": 0, "reward": 1.0, "info": {"task": {"instruction": "Fly."}}, "traj": TALK}
    found = parsed("tau-bench", [{**run, key: value}, run])
    assert len(found.trials) == 1
    assert f"file.json:1: {reason}" in found.skipped[0].reason


def test_simulations_of_tau2_bench_are_trials():
    """Calls of the simulated user are not the agent's; a run without a reward is missing data."""
    call = {"id": "c1", "name": "book", "arguments": {"to": "Lima"}, "requestor": "assistant"}
    own = {"id": "u1", "name": "reboot", "arguments": {}, "requestor": "user"}
    messages = [
        {"role": "assistant", "content": "Hi! How can I help you today?"},
        {"role": "user", "content": "I want to fly."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "booked", "id": "c1", "requestor": "assistant"},
        {"role": "user", "content": None, "tool_calls": [own]},
        {"role": "tool", "content": "done", "id": "u1", "requestor": "user"},
        {"role": "assistant", "content": "It is booked."},
    ]
    whole = {
        "info": {"agent_info": {"llm": "gpt-4.1"}, "environment_info": {"domain_name": "airline"}},
        "tasks": [{"id": "3", "user_scenario": {"instructions": {"reason": "You want to fly."}}}],
        "simulations": [
            {"task_id": "3", "trial": 0, "reward_info": {"reward": 1.0}, "agent_cost": 0.25, "messages": messages},
            {"task_id": "3", "trial": 1, "reward_info": None, "messages": messages},
        ],
    }
    found = parsed("tau-bench", whole)
    first, second = found.trials
    assert (first.task.task_id, first.model, first.end.usage.cost_usd) == ("airline/3", "gpt-4.1", 0.25)
    assert first.task.prompt == '{"reason":"You want to fly."}'
    assert [each.name for each in of(first, ActionStarted)] == ["message", "book", "message"]
    assert of(first, ActionFinished)[1].result == "booked"
    assert second.end.error_kind == "no_reward"
    assert found.remarks == ("calls that the simulated user made are not kept (2 times)",) * 2
