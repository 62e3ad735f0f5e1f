"""Totals of a run that its parts do not make: the total counts, in every format with one, and a remark says so."""

import pytest

from lhaw_record.recorder.events import ModelResponded
from lhaw_record.runners.imports import FORMATS, Options
from lhaw_record.runners.imports.foreign_trial import KnownRecords, SourceFile
from tests.runners.imports.files import eval_log, inspect_header, inspect_sample, source

ASKED = {"role": "user", "content": "Mend a.py."}


def mini_swe_agent(total):
    """A run of one reply, which cost 0.25."""
    said = {"role": "assistant", "content": "Done.", "extra": {"cost": 0.25}}
    info = {"model_stats": {"instance_cost": total, "api_calls": 1}}
    return {"trajectory_format": "mini-swe-agent-1.1", "info": info, "messages": [ASKED, said]}


def tau_bench(total):
    """A simulation whose agent said one thing, for 0.25 and 4 + 1 tokens."""
    usage = {"prompt_tokens": 4, "completion_tokens": 1}
    said = [{"role": "assistant", "content": "Hi.", "cost": 0.25, "usage": usage}, {"role": "user", "content": "Bye."}]
    return {"simulations": [{"task_id": "1", "messages": [ASKED, *said], "agent_cost": total}], "info": {}, "tasks": []}


def openhands(total):
    """A history of one message, whose reply had 10 tokens of which 4 were written to a cache."""
    events = [
        {"id": 1, "source": "user", "action": "message", "args": {"content": "Go."}},
        {
            "id": 2,
            "source": "agent",
            "action": "message",
            "args": {"content": "Done."},
            "tool_call_metadata": {"model_response": {"id": "r"}},
        },
    ]
    used = {"prompt_tokens": 10, "completion_tokens": 2, "cache_write_tokens": 4}
    totals = {**used, "cache_write_tokens": total}
    metrics = {"token_usages": [{"response_id": "r", **used}], "accumulated_token_usage": totals}
    return {"instance_id": "i", "history": events, "metrics": metrics}


def inspect_eval(total, **fields):
    """A log of two replies with 10 and 20 tokens, without any of its scorer."""
    sample = inspect_sample()
    usage = {"m": {"input_tokens": total, "output_tokens": 10}}
    sample |= {"events": sample["events"][:3], "model_usage": usage, **fields}
    return eval_log({"header.json": inspect_header(), "samples/rows_epoch_1.json": sample})


def reply(number, tokens, **fields):
    """An agent's step."""
    return {"step_id": number, "source": "agent", "message": "x", "metrics": {"prompt_tokens": tokens}, **fields}


def atif(total, *steps, **fields):
    """A document of a task and an agent's steps, or one of 10 tokens."""
    return {
        "schema_version": "ATIF-v1.8",
        "session_id": "s",
        "agent": {"name": "a", "version": "1", "model_name": "m"},
        "steps": [{"step_id": 1, "source": "user", "message": "Go."}, *(steps or [reply(2, 10)])],
        **({} if total is None else {"final_metrics": {"total_prompt_tokens": total}}),
        **fields,
    }


def harbor_job(total):
    """The result of a trial, with the trajectory of a reply of 10 tokens."""
    result = {
        "id": "1",
        "task_name": "t",
        "trial_name": "t__1",
        "agent_info": {"name": "a", "version": "1", "model_info": {"name": "m", "provider": "p"}},
        "agent_result": {"n_input_tokens": total, "n_output_tokens": 1},
        "verifier_result": {"rewards": {"reward": 1.0}},
    }
    return [placed(result, "t__1/result.json"), placed(atif(10), "t__1/agent/trajectory.json")]


def placed(content, label):
    """A file of a folder."""
    one = source(content)
    return SourceFile(label.rpartition("/")[2], "f", one.content, one.sha256, label)


def found_in(format_name, content):
    """What a format finds in a file or in the files of a folder."""
    sources = content if isinstance(content, list) else [source(content)]
    parts = FORMATS[format_name].parse(sources, Options(rewards={}), KnownRecords())
    return [trial for each in parts for trial in each.trials], [text for each in parts for text in each.remarks]


@pytest.mark.parametrize(
    ("format_name", "made", "field", "parts"),
    [
        ("mini-swe-agent", mini_swe_agent, "cost_usd", 0.25),
        ("tau-bench", tau_bench, "cost_usd", 0.25),
        ("openhands", openhands, "cache_write_tokens", 4),
        ("inspect-eval", inspect_eval, "input_tokens", 30),
        ("atif", atif, "input_tokens", 10),
        ("harbor-job", harbor_job, "input_tokens", 10),
    ],
)
@pytest.mark.parametrize("more", [0, 3])
def test_a_total_counts_whatever_its_parts_add_up_to(format_name, made, field, parts, more):
    """Where they agree nothing is said; where they do not, the remark has both."""
    (trial,), remarks = found_in(format_name, made(parts + more))
    assert getattr(trial.end.usage, field) == parts + more
    replies = [each.usage for each in trial.trajectory if isinstance(each, ModelResponded)]
    assert sum(getattr(usage, field) or 0 for usage in replies) == parts
    said = [text for text in remarks if "for its model calls" in text]
    assert said == (
        [f"{field} is {parts + more:g} for the run and {parts:g} for its model calls; the run's is kept"] * bool(more)
    )


def test_what_a_log_states_for_grader_and_agent_together_is_not_the_agents():
    """With a scorer that asked a model, or without any event, only the calls say what the agent used."""
    for fields in ({"events": inspect_sample()["events"]}, {"events": []}):
        (trial,), remarks = found_in("inspect-eval", inspect_eval(999, **fields))
        assert trial.end.usage.input_tokens is None
        assert not any("for its model calls" in text for text in remarks)


@pytest.mark.parametrize(("total", "known"), [(15, 15), (10, 15), (40, 40)])
def test_a_total_may_have_the_sub_agents_or_not(total, known):
    """What the steps add up to tells; if they do not, it has them, as the format says."""
    inner = atif(None, reply(2, 5), trajectory_id="inner")
    results = {"observation": {"results": [{"content": "", "subagent_trajectory_ref": [{"trajectory_id": "inner"}]}]}}
    (trial,), remarks = found_in("atif", atif(total, reply(2, 10, **results), subagent_trajectories=[inner]))
    assert trial.end.usage.input_tokens == known
    assert len(remarks) == (total == 40)


@pytest.mark.parametrize("later", [20, 30])
def test_totals_of_a_continued_run_go_on_or_begin_again(later):
    """Harbor's own go on from one document to the next; where each has its own, they are added."""
    first = placed(atif(10, continued_trajectory_ref="b.json"), "a.json")
    (trial,), remarks = found_in("atif", [first, placed(atif(later, reply(2, 20), session_id="u"), "b.json")])
    assert (trial.end.usage.input_tokens, remarks) == (
        30,
        ["continued in b.json", "belongs to the run of another file"],
    )
