"""Mistakes in keys are said with the choices that there are, for every key that has choices."""

import msgspec
import pytest

from lhaw_record.runners.environments.benchmarks.swebench_pro.benchmark import SwebenchProOptions
from lhaw_record.runners.experiment.decoding import key_problem
from lhaw_record.runners.experiment.program import ProgramSpec
from lhaw_record.runners.experiment.tables import Experiment

PAGE = "docs/page.md"
AGENT = {"name": "a", "model": "m"}
WHOLE = {"name": "e", "benchmark": {"name": "desk"}, "agents": [AGENT], "conditions": ["full"]}


def said(kind, raw):
    """What is said about a value of a type that it is not."""
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(raw, kind)
    return key_problem(caught.value, kind, raw, PAGE)


@pytest.mark.parametrize(
    ("kind", "raw", "key", "choices"),
    [
        (Experiment, {**WHOLE, "agents": [AGENT, {**AGENT, "role": "x"}]}, "agents[1].role", "evaluated, classifier"),
        (
            Experiment,
            {**WHOLE, "sandbox": {"kind": "x"}},
            "sandbox.kind",
            "auto, bubblewrap, namespaces, docker, process",
        ),
        (
            Experiment,
            {**WHOLE, "user_simulator": {"kind": "x"}},
            "user_simulator.kind",
            "exact, dump, hil_bench, llm, person",
        ),
        (Experiment, {**WHOLE, "grader": {"kind": "x"}}, "grader.kind", "default, matcher, judge"),
        (Experiment, {**WHOLE, "oracle_scope": "x"}, "oracle_scope", "task, variant"),
        (Experiment, {**WHOLE, "ask_notice": "x"}, "ask_notice", "none, paper"),
        (
            Experiment,
            {**WHOLE, "agents": [{**AGENT, "program": {"command": ["a"], "wire": "x"}}]},
            "agents[0].program.wire",
            "chat, responses, messages, gemini",
        ),
        (ProgramSpec, {"command": ["a"], "asks_by": "x"}, "asks_by", "built_in, mcp, prose, none"),
        (SwebenchProOptions, {"instances": ["a"], "scripts": "b", "history": "x"}, "history", "past, published"),
    ],
)
def test_a_choice_that_is_not_there_is_answered_with_those_that_are(kind, raw, key, choices):
    """The message has the key as one writes it, the value, and every value that it may have."""
    assert said(kind, raw) == f"key '{key}': \"x\" is not a choice; the choices are: {choices}"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({**WHOLE, "trials": "x"}, "key 'trials': \"x\", where a whole number is expected"),
        ({**WHOLE, "agents": [{"name": "a"}]}, f"key 'agents[0].model' is missing; add it ({PAGE})"),
        ({**WHOLE, "buget": {}}, "unknown key 'buget'; did you mean 'budget'?; known: name, benchmark, agents, "),
        (
            {**WHOLE, "agents": [{**AGENT, "program": {"command": ["a"], "environment": {"A": "b", "C": 3}}}]},
            "key 'agents[0].program.environment.C': 3, where a text is expected",
        ),
        (
            {**WHOLE, "agents": [{**AGENT, "program": {"command": ["a"], "ask_user": "none"}}]},
            f"unknown key 'agents[0].program.ask_user'; write asks_by = \"none\" ({PAGE})",
        ),
    ],
)
def test_other_mistakes_name_the_key_and_the_remedy(raw, words):
    """A wrong type, a missing and an unknown key are said in our words."""
    assert said(Experiment, raw).startswith(words)
