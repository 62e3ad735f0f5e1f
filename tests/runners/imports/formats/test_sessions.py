"""Sessions of people with Claude Code and with Codex."""

import json

import pytest

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    ApprovalAnswered,
    ModelCalled,
    ModelResponded,
    QuestionAnswered,
    QuestionAsked,
)
from lhaw_record.runners.imports.foreign_trial import ImportFailed
from tests.runners.imports.files import imported, parsed, query, write
from tests.runners.models.gateway.rigs import canned
from tests.runners.models.gateway.shapes import call_item, output_item, responses
from tests.runners.models.gateway.shapes import item as item_of
from tests.support.canned_model import text_reply, tool_reply

OPTIONS = [{"label": "CSV", "description": "a table"}, {"label": "JSON"}]
WHICH = {"question": "Which format?", "header": "Format", "multiSelect": False, "options": OPTIONS}


def claude(kind, message=None, uuid=None, session="s1", **more):
    claude.count += 1
    line = {"type": kind, "sessionId": session, "uuid": uuid or f"u{claude.count}", "version": "2.1.185", **more}
    return line | ({"message": message, "timestamp": "2026-03-01T10:00:00Z"} if message else {})


claude.count = 0


def user(content, **more):
    return claude("user", {"role": "user", "content": content}, **more)


def reply(key, *blocks, output=5, **more):
    usage = {"input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": output}
    message = {"id": key, "model": "claude-x", "role": "assistant", "content": list(blocks), "usage": usage}
    return claude("assistant", message, **more)


def use(key, name="Bash", **arguments):
    return {"type": "tool_use", "id": key, "name": name, "input": arguments}


def result(key, text, told=None, **more):
    block = {"type": "tool_result", "tool_use_id": key, "content": text, **more}
    return user([block], **({"toolUseResult": told} if told else {}))


def text(words):
    return {"type": "text", "text": words}


def jsonl(lines):
    return "\n".join(json.dumps(line) for line in lines) + "\n"


def events(found, *kinds):
    (trial,) = found.trials
    return [each for each in trial.trajectory if isinstance(each, kinds)]


def asking(answer, told=None, *, is_error=False, key="q"):
    return [
        user("Export it."),
        reply("m1", use(key, "AskUserQuestion", questions=[WHICH])),
        *([] if answer is None else [result(key, answer, told, is_error=is_error)]),
    ]


@pytest.mark.parametrize(
    ("answer", "told", "state", "said", "picked"),
    [
        ("answered", {"answers": {"Which format?": "CSV"}}, "answered", "CSV", ("CSV",)),
        ('answered: "Which format?"="CSV, JSON". You can', None, "answered", "CSV, JSON", ("CSV", "JSON")),
        ("answered", {"answers": {"Which format?": "as XML"}}, "answered", "as XML", ()),
        ("answered", {"answers": {"Another?": "yes"}}, "declined", None, ()),
        ("The user wants to clarify these questions.", None, "declined", None, ()),
        ("The user doesn't want to proceed. STOP what you are doing", None, "dismissed", None, ()),
        ("No response after 60s", {"answers": {}, "afkTimeoutMs": 60000}, "timed_out", None, ()),
        ("The tool is not there.", None, "unavailable", None, ()),
        (None, None, "timed_out", None, ()),
    ],
)
def test_each_response_to_claude_codes_own_question_has_its_state(answer, told, state, said, picked):
    """A label, own words, talk instead, dismissal, silence and a broken tool are told apart."""
    found = parsed("claude-code", jsonl(asking(answer, told)), name="s1.jsonl")
    (asked,), (answered,) = events(found, QuestionAsked), events(found, QuestionAnswered)
    assert (asked.question, asked.header, asked.medium) == ("Which format?", "Format", "built_in")
    assert [each.label for each in asked.options] == ["CSV", "JSON"]
    assert (answered.response_state, answered.answer, answered.picked) == (state, said, picked)


def test_a_question_that_nobody_saw_is_none():
    """An invalid form was never shown."""
    found = parsed("claude-code", jsonl(asking("InputValidationError: no", is_error=True)), name="s1.jsonl")
    assert events(found, QuestionAsked) == []
    assert len(events(found, ActionStarted)) == 1


def test_usage_counts_once_and_what_is_no_reply_is_said():
    """The last line of a reply counts; side agents are kept apart; interruptions, denials and errors are counted."""
    lines = [
        {"type": "summary", "summary": "x"},
        user("<command-name>/clear</command-name>"),
        user("Fix the test."),
        reply("m1", text("I look."), output=1),
        reply("m1", use("t1", command="ls"), output=2),
        result("t1", "a.py"),
        reply("m1", use("t2", command="rm a.py"), output=7),
        result("t2", "The user doesn't want to proceed with this tool use.", is_error=True),
        user([text("[Request interrupted by user for tool use]")]),
        claude(
            "progress", data={"type": "agent_progress", "agentId": "a", "message": reply("s1", use("t9"), output=3)}
        ),
        reply("side", text("I help."), output=4, isSidechain=True, agentId="b"),
        claude("assistant", {"id": "e", "model": "<synthetic>", "content": [text("API Error")], "usage": {}}),
        claude("system", subtype="compact_boundary"),
        user("The story so far", isCompactSummary=True),
        reply("m2", text("I can do that in two ways.\n\nWhich file should I keep, a.py or b.py?")),
        user("b.py"),
        reply("m3", text("Done.")),
    ]
    found = parsed("claude-code", jsonl(lines), name="s1.jsonl")
    called = events(found, ModelCalled)
    assert [each.call_kind for each in called] == ["main"] * 3 + ["sub_agent"] * 2
    assert called[1].message_count == 1
    used = [each.usage for each in events(found, ModelResponded)]
    assert [(each.input_tokens, each.output_tokens) for each in used] == [
        (110, 7),
        (110, 5),
        (110, 5),
        (110, 3),
        (110, 4),
    ]
    assert [each.name for each in events(found, ActionStarted)] == ["Bash", "Bash", "message", "message"]
    assert [(each.title, each.answer) for each in events(found, ApprovalAnswered)] == [("Bash", "reject")]
    (asked,), (answered,) = events(found, QuestionAsked), events(found, QuestionAnswered)
    assert (asked.medium, asked.question) == ("prose", "Which file should I keep, a.py or b.py?")
    assert (answered.answer, answered.response_state) == ("b.py", "answered")
    assert found.trials[0].task.prompt == "Fix the test."
    assert set(found.remarks) == {
        "times that the user interrupted the agent",
        "uses of tools that the user did not allow",
        "messages in place of a reply, such as errors of the API, are left out",
    }


def test_a_folder_counts_a_resumed_session_once_and_joins_sub_agents(tmp_path):
    """What a fork repeats counts once, a sub-agent's file is part of its session, and natural_ask reads the folder."""
    first = asking('"Which format?"="CSV".')
    write(tmp_path / "in" / "a.jsonl", jsonl(first))
    write(tmp_path / "in" / "b.jsonl", jsonl([*first, user("Again."), reply("m9", text("Done."))]))
    write(tmp_path / "in" / "c.jsonl", jsonl(first))
    side = [reply("x1", text("Found."), isSidechain=True, agentId="z")]
    write(tmp_path / "in" / "s1" / "subagents" / "agent-z.jsonl", jsonl(side))
    lone = [reply("x2", text("Found."), isSidechain=True, agentId="y", session="s9")]
    write(tmp_path / "in" / "s9" / "subagents" / "agent-y.jsonl", jsonl(lone))
    done = imported("claude-code", tmp_path / "in", tmp_path / "store")
    assert done.trials == 2
    reasons = [each.reason for file in done.files for each in file.skipped]
    assert reasons == [
        "c.jsonl: no reply of an agent that no other file has",
        "s9/subagents/agent-y.jsonl: a sub-agent without the file of its session",
    ]
    rows = dict(query(tmp_path / "store", "select measure, value from natural_ask where task_id = 'all'"))
    expected = {"ask_pct": 50, "questions": 1, "answered_pct": 100, "questions_by_built_in": 1, "went_on_pct": 0}
    assert {name: rows[name] for name in expected} == expected


@pytest.mark.thorough
def test_names_of_people_can_be_left_out(tmp_path):
    """The name in a home folder's path is replaced, and so it is wherever it stands alone; secrets never stay."""
    lines = [
        user("Look into /home/jane.doe/src, C:\\Users\\max\\x and for jane.doe and maximum.", cwd="/Users/eva/x"),
        reply("m1", text("eva said sk-ant-api03-" + "aB3dE5gH7jK9" * 8)),
    ]
    write(tmp_path / "s.jsonl", jsonl(lines))
    for name, is_hidden in (("open", False), ("hidden", True)):
        imported("claude-code", tmp_path / "s.jsonl", tmp_path / name, hide_paths=is_hidden)
        ((prompt,),) = query(tmp_path / name, "select prompt from stg_tasks_registered")
        ((answer,),) = query(tmp_path / name, "select reply_text from stg_models_responded")
        assert ("jane" in prompt, "eva" in answer) == (not is_hidden, not is_hidden)
        assert "sk-ant" not in answer
    assert prompt == "Look into /home/user/src, C:\\Users\\user\\x and for user and maximum."


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_a_torn_last_line_is_left_out_and_another_is_refused_by_its_line(name):
    """A session that is still written loses its last line, with a remark; two objects on a line are two."""
    lines = {"claude-code": [user("Hi."), reply("m1", text("Hello."))], "codex": rollout()}[name]
    whole = jsonl(lines).encode()
    found = parsed(name, whole + b'{"type": "us', name="s.jsonl")
    assert found.remarks == (f"s.jsonl, line {len(lines) + 1}: the last line is incomplete and left out",)
    assert (
        parsed(name, whole.replace(b"\n", b" ", 1), name="s.jsonl").trials == parsed(name, whole, name="s.jsonl").trials
    )
    with pytest.raises(ImportFailed, match=r"s\.jsonl, line 1 is not JSON"):
        parsed(name, b'{"type": \n' + whole, name="s.jsonl")
    with pytest.raises(ImportFailed, match=r"s\.jsonl is not a session"):
        parsed(name, b'{"a": 1}\n', name="s.jsonl")


def item(**payload):
    return {"type": "response_item", "payload": payload, "timestamp": "2026-06-01T10:00:00Z"}


def event(**payload):
    return {"type": "event_msg", "payload": payload}


def said(role, words):
    kind = "output_text" if role == "assistant" else "input_text"
    return item(type="message", role=role, content=[{"type": kind, "text": words}])


def tokens(count):
    total = {"input_tokens": count, "cached_input_tokens": 1, "output_tokens": 2, "total_tokens": count + 2}
    return event(type="token_count", info={"total_token_usage": total})


def rollout(answer='{"answers": {"f": {"answers": ["CSV"]}}}'):
    questions = json.dumps(
        {"questions": [{"id": "f", "header": "Format", "question": "Which format?", "options": OPTIONS}]}
    )
    return [
        {
            "type": "session_meta",
            "payload": {"id": "r1", "cli_version": "0.142.3", "timestamp": "2026-06-01T10:00:00Z"},
        },
        said("user", "<environment_context>here</environment_context>"),
        {"type": "turn_context", "payload": {"model": "gpt-x"}},
        said("user", "Export it."),
        event(type="user_message", message="Export it."),
        item(type="function_call", name="request_user_input", arguments=questions, call_id="c1"),
        *([] if answer is None else [item(type="function_call_output", call_id="c1", output=answer)]),
        event(type="agent_message", message="Done."),
        said("assistant", "Done."),
        tokens(50),
        tokens(50),
        event(type="token_count", info=None),
    ]


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ('{"answers": {"f": {"answers": ["CSV"]}}}', "answered"),
        ('{"answers": {"f": {"answers": []}}}', "declined"),
        ('{"answers": {}}', "declined"),
        ("cancelled before receiving a response", "dismissed"),
        ("request_user_input is unavailable in Default mode", "unavailable"),
        (None, "timed_out"),
    ],
)
def test_each_response_to_codexs_own_question_has_its_state(answer, state):
    """Codex answers by the id of a question; an empty list is no answer."""
    found = parsed("codex", jsonl(rollout(answer)), name="r.jsonl")
    (asked,), (answered,) = events(found, QuestionAsked), events(found, QuestionAnswered)
    assert (asked.question, asked.medium, answered.response_state) == ("Which format?", "built_in", state)
    assert answered.picked == (("CSV",) if state == "answered" else ())


def test_codexs_searches_are_actions():
    """Calls of tools that are no functions count, with what they were asked; failed requests are counted."""
    found_tools = [{"type": "function", "name": "open_issue"}]
    lines = [
        *rollout()[:-5],
        item(type="tool_search_call", call_id="c2", status="completed", arguments={"query": "issues"}),
        item(type="tool_search_output", call_id="c2", status="completed", tools=found_tools),
        item(type="web_search_call", status="completed", action={"type": "search", "query": "what is new"}),
        item(type="image_generation_call", id="i1", status="completed", revised_prompt="a cat", result="aGk="),
        said("assistant", "Done."),
        event(type="stream_error", message="again"),
    ]
    found = parsed("codex", jsonl(lines), name="r.jsonl")
    begun, ended = events(found, ActionStarted), events(found, ActionFinished)
    assert [each.name for each in begun][1:4] == ["tool_search", "web_search", "image_generation"]
    assert [json.loads(each.arguments_json) for each in begun[1:3]] == [
        {"query": "issues"},
        {"type": "search", "query": "what is new"},
    ]
    assert "open_issue" in {each.action_index: each.result for each in ended}[2]
    assert "events of type stream_error, such as failed requests, are left out" in found.remarks


def test_claude_codes_tools_of_the_provider_are_actions():
    """A search that the provider runs counts like any other call; lines of kinds that are not known are counted."""
    lines = [
        user("Look it up."),
        reply("m1", {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}),
        {"type": "attachment", "attachment": {"type": "queued_command"}},
        claude("queue-operation", operation="enqueue"),
        reply("m2", text("Done.")),
    ]
    found = parsed("claude-code", jsonl(lines), name="s1.jsonl")
    assert [each.name for each in events(found, ActionStarted)] == ["web_search", "message"]
    assert "lines of type attachment/queued_command are not kept" in found.remarks
    assert "lines of type queue-operation are not kept" in found.remarks


async def test_a_codex_session_is_the_same_live_and_from_its_rollout():
    """Law: equal replies and actions. Reasoning between the texts and calls of a reply begins no other."""
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    read, look = ("c2", "read", '{"path":"a"}'), ("c3", "work", "{}")
    turns = [
        ([item_of("user", "Export it.")], tool_reply(read, look, text="I search.\nTwice.")),
        (
            [
                *(thought, item_of("assistant", "I search."), thought, item_of("assistant", "Twice.")),
                *(thought, call_item(*read), thought, call_item(*look), output_item("c2"), output_item("c3")),
            ],
            text_reply("Done."),
        ),
        ([thought, item_of("assistant", "Done."), item_of("user", "Thanks.")], text_reply("Good.")),
    ]
    rig, _ = canned(*(reply for _, reply in turns), prompt="Export it.")
    items = []
    async with rig.client() as client:
        for new, _ in turns:
            items += new
            await client.post("v1/responses", json=responses(*items, tools=("read", "work")))
    await rig.session.close("submitted")
    items += [item_of("assistant", "Good."), thought]
    lines = [*rollout()[:1], *(item(**each) for each in items)]
    found = parsed("codex", jsonl(lines), name="r.jsonl")
    for kind, told in (
        (ModelResponded, lambda each: (each.text, each.tool_calls)),
        (ActionStarted, lambda each: (each.kind, each.name, each.arguments_json, each.call_id)),
        (ModelCalled, lambda each: each.message_count),
    ):
        assert [told(each) for each in rig.of(kind)] == [told(each) for each in events(found, kind)]
    assert events(found, ModelResponded)[0].reasoning.text == "Hm.\nHm.\nHm.\nHm."
    assert [each.message_count for each in rig.of(ModelCalled)] == [1, 4, 6]


def test_codexs_totals_and_compaction_count_once():
    """Equal totals are one, a total that begins again is added, and what a compaction repeats is no new turn."""
    history = [each["payload"] for each in (said("user", "Export it."), said("assistant", "Done."))]
    lines = [
        *rollout(),
        {"type": "compacted", "payload": {"replacement_history": [*history, {"type": "compaction"}]}},
        said("user", "More."),
        said("assistant", "More is done."),
        tokens(20),
        event(type="turn_aborted", reason="interrupted"),
    ]
    found = parsed("codex", jsonl(lines), name="r.jsonl")
    (trial,) = found.trials
    assert (trial.end.usage.input_tokens, trial.end.usage.output_tokens) == (70, 4)
    assert (trial.program, trial.model, trial.condition) == ("Codex 0.142.3", "gpt-x", "full_ask_user")
    assert trial.task.prompt == "Export it."
    assert [each.name for each in events(found, ActionStarted)] == ["request_user_input", "message", "message"]
    assert "items of type compaction are not kept" in found.remarks
    assert "times that the user interrupted the agent" in found.remarks
