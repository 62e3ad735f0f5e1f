"""The plan: which trials there are, and what makes two trials one."""

from pathlib import Path

import msgspec
import pytest

from lhaw_record.recorder.reading.trial_index import FinishedTrial
from lhaw_record.runners.base.conversation.injection import injection_action, oracle_budget
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.program import ProgramSpec
from lhaw_record.runners.experiment.prompts import InjectionTemplates, Prompts
from lhaw_record.runners.experiment.tables import AgentSpec, BenchmarkSpec, BudgetSpec, LimitsSpec
from lhaw_record.runners.runs.planning.plan import make_plan, refuse_left_out, settle_budget
from tests.support.toy_plan import ListedBenchmark, experiment


def plan_of(described, benchmark=None):
    """The plan of an experiment on the listed benchmark."""
    benchmark = benchmark or ListedBenchmark()
    return make_plan(described, benchmark, Prompts(described, Path(), benchmark.system_prompt()), "exact:1")


def ids_of(described, benchmark=None):
    """The identities of its trials."""
    return {trial.trial_id for trial in plan_of(described, benchmark).trials}


def test_counts_follow_from_the_design():
    """Tasks for full prompts, variants for the rest, times agents and trials; oracles run first."""
    plan = plan_of(experiment(), ListedBenchmark(tasks=2, variants_each=3))
    by_condition = {}
    for trial in plan.trials:
        by_condition[trial.condition] = by_condition.get(trial.condition, 0) + 1
    assert by_condition == {"full": 2 * 2 * 3, "underspecified": 6 * 2 * 3, "inject_50": 6 * 2 * 3}
    assert {trial.condition for trial in plan.trials[:12]} == {"full"}


def test_conditions_of_a_variant_run_beside_each_other():
    """A provider that changes meanwhile changes all arms of a pair; cells fill by index, full first if waited for."""
    conditions = ("full", "underspecified", "ask_user")
    plan = plan_of(experiment(conditions=conditions), ListedBenchmark(tasks=2, variants_each=2))
    order = [(trial.trial_index, trial.task.task_id) for trial in plan.trials]
    assert order == sorted(order)
    paired = [trial for trial in plan.trials if trial.condition != "full"]
    for one, other in zip(paired[::2], paired[1::2], strict=True):
        assert (one.variant, one.agent) == (other.variant, other.agent)
        assert (one.condition, other.condition) == conditions[1:]
    waited_for = plan_of(experiment(conditions=("underspecified", "inject_50", "full")), ListedBenchmark())
    is_full = [trial.condition == "full" for trial in waited_for.trials]
    assert is_full == sorted(is_full, reverse=True)


def test_with_variant_scope_every_variant_has_its_own_oracles():
    """oracle_scope = variant runs full trials per variant, and each is a unit of its own."""
    plan = plan_of(experiment(oracle_scope="variant"), ListedBenchmark(tasks=1, variants_each=3))
    oracles = plan.oracle_trials()
    assert len(oracles) == 2 * 3
    assert all(len(trials) == 3 for trials in oracles.values())


@pytest.mark.parametrize(
    "change",
    [
        {"concurrency": 9},
        {"budget": BudgetSpec(max_cost_usd=1.0)},
        {"agents": (AgentSpec(name="renamed", model="scripted/balanced", api_base="http://x"), experiment().agents[1])},
    ],
)
def test_what_is_not_measured_is_not_in_the_identity(change):
    """Concurrency, budgets, an agent's name and address leave every trial what it was."""
    assert ids_of(experiment(**change)) == ids_of(experiment())


@pytest.mark.parametrize(
    "change",
    [
        {"limits": LimitsSpec(max_turns=5)},
        {"limits": LimitsSpec(max_actions=5)},
        {"ask_notice": "paper", "conditions": ("full_ask_user",)},
        {"oracle_scope": "variant"},
        {"seeds": (7, 8, 9)},
        {"name": "other"},
        {"agents": (AgentSpec(name="a", model="scripted/balanced", strategy="react"),)},
        {"agents": (AgentSpec(name="a", model="scripted/balanced", persona="executive"),)},
        {"agents": (AgentSpec(name="a", model="scripted/balanced", parameters={"temperature": 1}),)},
    ],
)
def test_what_is_measured_is_in_the_identity(change):
    """Limits, notices, scope, seeds, strategy, persona, parameters and the experiment's name make other trials.

    The name, so that the streams of two experiments in one store are never taken for one.
    """
    before = ids_of(experiment(conditions=change.get("conditions", experiment().conditions)))
    assert not ids_of(experiment(**change)) & before


def test_the_notice_names_the_tool_that_the_agent_has():
    """Gemini reserves the name ask_user, so that its notice names consult, and the native agent's ask_user."""
    prompts = Prompts(experiment(ask_notice="paper"), Path(), "")
    native = experiment().agents[0]
    gemini = msgspec.structs.replace(native, program=ProgramSpec(command=("g",), ask_user_tool="consult"))
    for agent, named in ((native, "`ask_user`"), (gemini, "`consult`")):
        assert f"with the {named} tool" in prompts.system_text(agent, has_ask_user=True)


def test_a_limit_that_is_not_set_is_not_in_the_identity():
    """Without a limit of actions, the key has every other limit."""
    (key, *_) = [trial.key for trial in plan_of(experiment()).trials]
    assert set(key.limits) == {"max_turns", "max_seconds", "command_seconds", "memory_mb", "processes", "file_mb"}


def test_a_changed_prompt_makes_new_trials():
    """The task's prompt is part of the identity."""
    assert not ids_of(experiment(), ListedBenchmark(prompt="Do it by {}.")) & ids_of(experiment())


def test_two_names_for_one_agent_are_refused():
    """Agents that are equal in everything measured would be one; the message names them."""
    twins = (AgentSpec(name="a", model="scripted/never"), AgentSpec(name="b", model="scripted/never"))
    with pytest.raises(ExperimentError, match="agents a and b do not differ"):
        plan_of(experiment(agents=twins))


def test_unknown_tasks_and_variants_are_named():
    """The key and some that are there stand in the message."""
    with pytest.raises(ExperimentError, match=r"key 'benchmark.variants': 'nope' is not there; there are: t0/v0"):
        plan_of(experiment(benchmark=BenchmarkSpec(name="toy", variants=("nope",))))


class Partial(ListedBenchmark):
    """One that cannot run a task here, and has no variant of another."""

    def left_out(self):
        """One task."""
        return ["t9"]

    def why_not(self, task_id):
        """The reason."""
        return "no engine"

    def variants(self):
        """All but those of the first task."""
        return [each for each in super().variants() if each.task_id != "t0"]


@pytest.mark.parametrize(
    ("benchmark", "chosen", "said"),
    [
        (Partial(), {}, "t9: no engine; t0: it has no variant"),
        (ListedBenchmark(variants_each=0), {}, "2 tasks would be left out .*t0: it has no variant; t1"),
        (Partial(), {"tasks": ("t1",)}, None),
        (Partial(), {"variants": ("t1/v0",)}, None),
        (Partial(), {"allow_left_out": True}, None),
        (ListedBenchmark(), {}, None),
    ],
)
def test_a_task_is_left_out_only_if_the_file_allows_it(benchmark, chosen, said):
    """Because it cannot run, or because no variant of it can be planned; what the file chooses is its choice."""
    described = experiment(benchmark=BenchmarkSpec(name="toy", **chosen))
    plan = plan_of(described, benchmark)
    if said is None:
        refuse_left_out(plan, described, benchmark)
    else:
        with pytest.raises(ExperimentError, match=said):
            refuse_left_out(plan, described, benchmark)


def test_naming_variants_chooses_their_tasks():
    """Only the tasks of the named variants get full trials."""
    plan = plan_of(experiment(benchmark=BenchmarkSpec(name="toy", variants=("t1/v0",))))
    assert {trial.task.task_id for trial in plan.trials} == {"t1"}


def test_a_replay_model_is_refused_where_it_would_know_too_much():
    """scripted/replay runs under full only."""
    with pytest.raises(ExperimentError, match="use scripted/replay_masked for underspecified"):
        plan_of(experiment(agents=(AgentSpec(name="r", model="scripted/replay"),)))


def test_a_budget_needs_all_its_oracles():
    """B is set when every planned full trial is valid, or min_oracle_trials of them; its counts are recorded."""
    plan = plan_of(experiment(agents=(AgentSpec(name="a", model="scripted/never"),)))
    ((unit, oracles), *_) = plan.oracle_trials().items()
    finished = {
        trial.trial_id: FinishedTrial(trial_id=trial.trial_id, attempt=1, action_count=count, cost_usd=None)
        for trial, count in zip(oracles, (10, 11, 11), strict=True)
    }
    two = dict(list(finished.items())[:2])
    assert settle_budget(unit, oracles, two, None) is None
    assert settle_budget(unit, oracles, two, 2).budget_actions == 11
    full = settle_budget(unit, oracles, finished, None)
    assert (full.budget_actions, full.action_counts) == (11, (10, 11, 11))


@pytest.mark.parametrize(("counts", "budget"), [((10, 11), 11), ((10, 10, 11), 10), ((1,), 1), ((2, 3, 3, 2), 3)])
def test_the_budget_rounds_half_up_in_integers(counts, budget):
    """10.5 becomes 11, 10.33 becomes 10."""
    assert oracle_budget(counts) == budget


@pytest.mark.parametrize(
    ("budget", "percent", "action"), [(20, 10, 2), (1, 90, 1), (9, 10, 1), (7, 70, 4), (19, 90, 17)]
)
def test_the_injection_action_is_floored_and_at_least_one(budget, percent, action):
    """The action is max(1, B * p div 100)."""
    assert injection_action(budget, percent) == action


def test_messages_use_the_template_of_the_first_segment_and_connectives():
    """Each removed value stands in the message exactly once; a value with a full stop gets no second one."""
    (variant, *_) = ListedBenchmark().variants()
    segment = variant.segments[0]
    second = msgspec.structs.replace(segment, segment_id="S2", value="in red.", dimension="context")
    message = InjectionTemplates().message([segment, second])
    assert message.count("today") == message.count("in red.") == 1
    assert ".." not in message


def test_controls_run_under_their_own_conditions_only():
    """A control variant is planned under control and control_ask_user, every other one under the other conditions."""
    benchmark = ListedBenchmark(tasks=1, variants_each=2)
    first, second = benchmark.variants()
    benchmark.variants()[1] = msgspec.structs.replace(second, origin="control")
    conditions = ("full", "underspecified", "ask_user", "control", "control_ask_user")
    plan = plan_of(experiment(conditions=conditions), benchmark)
    planned = {(trial.condition, trial.variant and trial.variant.variant_id) for trial in plan.trials}
    assert planned == {
        ("full", None),
        ("underspecified", first.variant_id),
        ("ask_user", first.variant_id),
        ("control", second.variant_id),
        ("control_ask_user", second.variant_id),
    }


def test_faulty_requests_run_under_their_own_conditions_only():
    """A request with a fault is planned under faulty and faulty_ask_user, every other variant under the others."""
    benchmark = ListedBenchmark(tasks=1, variants_each=2)
    first, second = benchmark.variants()
    benchmark.variants()[1] = msgspec.structs.replace(second, fault="stale_information")
    conditions = ("full", "underspecified", "ask_user", "inject_50", "faulty", "faulty_ask_user")
    plan = plan_of(experiment(conditions=conditions), benchmark)
    shown = {(trial.condition, trial.shown_variant.variant_id) for trial in plan.trials if trial.shown_variant}
    assert {name for name, variant in shown if variant == second.variant_id} == {"faulty", "faulty_ask_user"}
    assert {name for name, variant in shown if variant == first.variant_id} == {
        "underspecified",
        "ask_user",
        "inject_50",
    }


def test_the_full_prompt_meets_no_variant():
    """With oracle_scope variant a full trial belongs to a variant and still sees the task as it is."""
    plan = plan_of(experiment(oracle_scope="variant", conditions=("full", "underspecified")))
    for trial in plan.trials:
        assert trial.variant is not None
        assert (trial.shown_variant is None) == (trial.condition == "full")
