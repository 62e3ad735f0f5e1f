"""A question belongs to the model's tool call: by its id, else by its words; and to an action, where that is known."""

import pytest

from lhaw_record.runners.users.ask_user.calls import Questions
from lhaw_record.runners.users.ask_user.server import AskUserCall
from tests.runners.users.simulated_user.trials import pending_call

WORDS = {"question": "Which year?"}
NAMES = ("consult", "ask_user")
SHELL = pending_call("c-shell", {"command": "ls"}, name="bash", action_index=1)


QUESTIONS = Questions(None, list, NAMES)


def ids(calls):
    """The ids of calls."""
    return [call.call_id for call in calls]


@pytest.mark.parametrize(
    "name", ["ask_user", "mcp__user__ask_user", "user_ask_user", "127_0_0_1_8000.ask_user", "mcp__user__consult"]
)
def test_the_words_find_the_call_under_any_name(name):
    """Clients put a server's name before the tool's."""
    assert ids(
        QUESTIONS.matching(AskUserCall(question="Which year?"), [SHELL, pending_call("c1", WORDS, name=name)])
    ) == ["c1"]


@pytest.mark.parametrize(
    "arguments", [{**WORDS, "context": ""}, {**WORDS, "context": None}, {"question": " Which year?\n", "reason": "x"}]
)
def test_what_clients_add_or_leave_out_makes_no_other_question(arguments):
    """An empty context, space around the words and arguments that the tool does not have do not count."""
    assert ids(QUESTIONS.matching(AskUserCall(question="Which year?"), [pending_call("c1", arguments)])) == ["c1"]


@pytest.mark.parametrize("arguments", [{"question": "Which month?"}, {**WORDS, "context": "I am done."}, {}, [], "x"])
def test_other_words_are_another_question(arguments):
    """A call with other words, or with none, is not taken for it."""
    assert QUESTIONS.matching(AskUserCall(question="Which year?"), [pending_call("c1", arguments)]) == []


def test_broken_arguments_are_no_question():
    """What the model wrote need not be JSON."""
    broken = pending_call("c1", {})
    for text in ("", "{", "\ud800"):
        call = type(broken)(call_id="c1", name="ask_user", arguments_json=text, action_index=1)
        assert QUESTIONS.matching(AskUserCall(question="Which year?"), [call]) == []


def test_an_id_decides_where_the_client_tells_it():
    """Words and names do not matter then, and another id is another call."""
    calls = [pending_call("c1", WORDS), pending_call("c2", {"question": "rewritten"}, name="ask")]
    assert ids(QUESTIONS.matching(AskUserCall(question="Which year?", call_id="c2"), calls)) == ["c2"]
    assert QUESTIONS.matching(AskUserCall(question="Which year?", call_id="c9"), calls) == []


@pytest.mark.parametrize(
    ("pending", "taken", "action"),
    [
        ([], (), None),
        ([SHELL], (), 1),
        ([SHELL, pending_call("c1", WORDS)], (), 3),
        ([SHELL, pending_call("c1", WORDS)], ("c1",), 1),
        ([SHELL, pending_call("c1", WORDS), pending_call("c2", WORDS, action_index=4)], (), None),
        ([SHELL, pending_call("c9", {}, name="task", action_index=2)], (), None),
    ],
)
def test_a_question_without_a_call_is_part_of_the_enclosing_action_it(pending, taken, action):
    """A sub-agent's question belongs to the call that started it; where several calls run, nobody knows to which."""
    assert QUESTIONS.enclosing(pending, taken) == action
