"""Archetypes, strategies and personas change what a scripted model does, not just what is recorded."""

import pytest

from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.agents.scripted.archetypes import ARCHETYPES, habits_of
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks, prompt_variants
from tests.runners.agents.scripted.trials import run_trial, wording

TASK = next(task for task in desk_tasks() if task.task_id == "expense-audit")
VARIANTS = {variant.variant_id.partition("/")[2]: variant for variant in prompt_variants(TASK)}


def _tell(variant):
    """Answer every question with everything that was removed."""
    return lambda question: "; ".join(segment.value for segment in variant.segments)


def _defer(question):
    return "Use your best judgment."


@pytest.mark.thorough
async def test_over_clarifier_asks_even_when_all_is_said():
    """Under ``full_ask_user`` only the over-clarifier asks."""
    counts = {
        archetype: len((await run_trial(TASK, archetype, reply=_defer)).questions)
        for archetype in ("over_clarifier", "balanced", "never")
    }
    assert counts["over_clarifier"] > 0 == counts["balanced"] == counts["never"]


async def test_balanced_asks_when_it_needs_the_value_and_uses_the_answer():
    """The question comes after the first steps of work, and the answer makes the difference."""
    variant = VARIANTS["receipt-minimum"]
    asked = await run_trial(TASK, "balanced", prompt=variant.prompt, reply=_tell(variant))
    alone = await run_trial(TASK, "balanced", prompt=variant.prompt)
    assert len(asked.questions) == 1
    assert asked.actions.index(("ask_user", {"question": asked.questions[0]})) > 4
    assert asked.grade.is_success
    assert not alone.grade.is_success


async def test_over_clarifier_asks_at_once():
    """Its questions follow the first look, and also cover things that are not missing."""
    variant = VARIANTS["receipt-minimum"]
    trial = await run_trial(TASK, "over_clarifier", prompt=variant.prompt, reply=_tell(variant))
    assert [name for name, _ in trial.actions[1:3]] == ["ask_user", "ask_user"]
    assert trial.grade.is_success


async def test_never_asks_nothing_and_says_what_it_assumed():
    """It guesses, and its answer admits it."""
    variant = VARIANTS["receipt-minimum"]
    trial = await run_trial(TASK, "never", prompt=variant.prompt, reply=_tell(variant))
    assert trial.questions == []
    assert "I assumed receipt_minimum" in trial.actions[-1][1]["answer"]


@pytest.mark.thorough
async def test_three_seeds_guess_differently():
    """Different seeds make trials of one variant diverge."""
    prompt = VARIANTS["receipt-minimum"].prompt
    answers = {(await run_trial(TASK, "never", prompt=prompt, seed=seed)).actions[-1][1]["answer"] for seed in range(3)}
    assert len(answers) == 3


async def test_same_seed_takes_the_same_actions():
    """A trial can be repeated to the letter."""
    prompt = VARIANTS["which-ledger"].prompt
    first, second = [await run_trial(TASK, "balanced", prompt=prompt, seed=1) for _ in range(2)]
    assert first.messages == second.messages


@pytest.mark.thorough
async def test_files_tell_careful_models_what_the_prompt_does_not():
    """Balanced finds the answer in last quarter's notes; the hasty model skips them."""
    prompt = VARIANTS["reason-codes"].prompt
    assert (await run_trial(TASK, "balanced", prompt=prompt)).grade.is_success
    assert not (await run_trial(TASK, "never", prompt=prompt)).grade.is_success


@pytest.mark.thorough
async def test_balanced_reads_two_files_in_one_turn():
    """Parallel calls occur, so that the clean boundary is exercised."""
    assert 2 in (await run_trial(TASK, "balanced")).batches


@pytest.mark.thorough
async def test_react_thinks_aloud_and_makes_one_call_at_a_time():
    """Each turn has a thought and one call."""
    trial = await run_trial(TASK, "balanced", wordings=wording("strategies", "react"))
    turns = [message for message in trial.messages if message.role == "assistant"]
    assert all(turn.content.startswith("Thought:") and len(turn.tool_calls) == 1 for turn in turns)
    assert trial.grade.is_success


@pytest.mark.thorough
async def test_plan_comes_first_and_changes_with_what_is_learned():
    """A plan before the first call, all questions right after the first look, and a new plan after the answer."""
    variant = VARIANTS["receipt-minimum"]
    trial = await run_trial(
        TASK,
        "balanced",
        prompt=variant.prompt,
        wordings=wording("strategies", "plan_and_execute"),
        reply=_tell(variant),
    )
    names = [name for name, _ in trial.actions]
    assert names[0] == "message"
    assert names.count("message") == 2
    assert names.index("ask_user") == 2
    assert trial.grade.is_success


@pytest.mark.thorough
async def test_reflexion_settles_an_assumption_by_reading():
    """A hasty model that checks itself reads what it had skipped, and corrects its result."""
    prompt = VARIANTS["reason-codes"].prompt
    trial = await run_trial(TASK, "never", prompt=prompt, wordings=wording("strategies", "reflexion"))
    assert trial.grade.is_success
    plain = await run_trial(TASK, "never", prompt=prompt)
    assert len(trial.actions) > len(plain.actions)


@pytest.mark.thorough
async def test_reflexion_redoes_a_deliverable_that_is_missing():
    """When writing fails once, only the model that checks itself notices."""

    def spoiled():
        is_spoilt = iter([True])

        def spoil(call, number):
            is_summary = "write_file" in call.name or "# Expense audit" in call.arguments_json
            return "Error: the disk is busy" if is_summary and next(is_spoilt, False) else None

        return spoil

    careless = await run_trial(TASK, "balanced", spoil=spoiled())
    careful = await run_trial(TASK, "balanced", spoil=spoiled(), wordings=wording("strategies", "reflexion"))
    assert not careless.grade.is_success
    assert careful.grade.is_success


async def test_reflexion_asks_late_about_what_it_assumed():
    """A smaller thing that the executive was not asked about at first comes up in the self-check."""
    variant = VARIANTS["sort-order"]
    wordings = wording("personas", "executive")
    plain = await run_trial(TASK, "balanced", prompt=variant.prompt, wordings=wordings, reply=_tell(variant))
    checked = await run_trial(
        TASK,
        "balanced",
        prompt=variant.prompt,
        wordings=f"{wording('strategies', 'reflexion')}\n{wordings}",
        reply=_tell(variant),
    )
    assert plain.questions == []
    assert len(checked.questions) == 1
    assert checked.grade.is_success


@pytest.mark.thorough
@pytest.mark.parametrize("archetype", ["over_clarifier", "balanced"])
async def test_personas_order_the_number_of_questions(archetype):
    """Supervisor draws more questions than executive, standard lies between."""
    variants = [VARIANTS["sort-order"], VARIANTS["receipt-minimum"], VARIANTS["reason-codes"]]
    counts = []
    for persona in ("supervisor", "standard", "executive"):
        trials = [
            await run_trial(
                TASK, archetype, prompt=item.prompt, wordings=wording("personas", persona), reply=_tell(item)
            )
            for item in variants
        ]
        counts.append(sum(len(trial.questions) for trial in trials))
    assert counts[0] >= counts[1] > counts[2]
    assert counts[0] > counts[2]


@pytest.mark.thorough
async def test_supervisor_makes_the_hasty_one_read():
    """A supervisor makes even the model that never asks read what it would skip."""
    prompt = VARIANTS["reason-codes"].prompt
    trial = await run_trial(TASK, "never", prompt=prompt, wordings=wording("personas", "supervisor"))
    assert trial.grade.is_success


def test_wordings_are_told_apart():
    """Each strategy and persona changes the habits it should; the system prompt and the notices change none."""
    plain = {name: habits_of(name, "") for name in ARCHETYPES}
    for text in ("system.md", "ask_notice_paper.md", "nudge.md", "personas/standard.md"):
        bundled = data_path("prompts", *text.split("/")).read_text()
        assert {name: habits_of(name, bundled) for name in ARCHETYPES} == plain, text
    balanced = "scripted/balanced"
    assert habits_of(balanced, wording("strategies", "react")).thinks_aloud
    assert habits_of(balanced, wording("strategies", "reflexion")).checks_itself
    assert habits_of(balanced, wording("strategies", "plan_and_execute")).plans_first
    changed = [habits_of(balanced, wording(*pair)) for pair in (("strategies", "react"), ("personas", "supervisor"))]
    assert not any(habits.checks_itself or habits.plans_first for habits in changed)
