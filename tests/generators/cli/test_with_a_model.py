"""``generate`` and ``variants gate`` with a model behind real HTTP, by the command line."""

import json
import re
from collections import Counter

import msgspec
import pytest

from lhaw_record.generators.gate import UNJUDGED
from lhaw_record.generators.generation.generation_index import load_generation_index
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.reading.registrations import Registrations
from tests.cli.program import called, query
from tests.support.chat_server import server_beside
from tests.support.faults import Fault
from tests.support.generation_model import (
    HandlerModel,
    asked_of,
    assessment_reply,
    guess_reply,
    is_assessment,
    is_guess,
    rewriting_reply,
)

PROMPT = "Sort guests.csv by name and send the list to Ada Byron before 14 March 2019."
SEGMENTS = {
    "guests.csv": ("some file", "input", "identifier", "Which file should I sort?"),
    "Ada Byron": ("a colleague", "input", "identifier", "Who gets the list?"),
    "14 March 2019": ("the deadline", "constraint", "temporal", "Until when do you need it?"),
}


def author(body, guess="", overlooks=()):
    """Extract, rewrite and judge one task as a good model would."""
    if is_guess(body):
        names = re.findall(r'"segment_id":"([^"]+)"', body["messages"][1]["content"])
        return guess_reply(**dict.fromkeys(names, guess))
    if is_assessment(body):
        return assessment_reply()
    asked = asked_of(body)
    if asked.is_extraction:
        scores = {"criticality": 1, "guessability": 0}
        segments = [
            {"value": value, "text": PROMPT, "dimension": dimension, "subdimension": sub, **scores}
            for value, (_, dimension, sub, _) in SEGMENTS.items()
            if value not in overlooks
        ]
        return json.dumps({"segments": segments})
    (segment,) = asked.segments
    new, _, _, question = SEGMENTS[segment["value"]]
    return rewriting_reply(
        PROMPT.replace(segment["value"], new), [{"segment_id": segment["segment_id"], "questions": [question]}]
    )


class Silent(HandlerModel):
    """A model whose server does not report what a reply used."""

    async def respond(self, request):
        """Reply without token counts."""
        return msgspec.structs.replace(await super().respond(request), usage=None)


@pytest.fixture
def task(tmp_path):
    """A file with one task."""
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps({"task_id": "guests", "prompt": PROMPT}))
    return path


def generate(task, url, *words):
    """Run generate with a model as extractor and rewriter."""
    models = ("--extractor", "local-model", "--rewriter", "local-model", "--api-base", url, "--price", "1", "1")
    where = ("--from", task, "--store", task.parent / "store", "--severity", "vaguify")
    return called("generate", "own", *where, *models, *words)


def test_variants_are_judged_once_and_shown_with_the_judgement(task):
    """The judge's calls are recorded and not paid again; what it was asked stands beside the variant."""
    with server_beside(HandlerModel(author)) as server:
        first = generate(task, server.url, "--judge", "local-model", "--guesses", "2")
        asked = len(server.requests)
        again = generate(task, server.url, "--judge", "local-model", "--guesses", "2")
        assert len(server.requests) == asked
    assert (first.returncode, again.returncode) == (0, 0), first.stderr
    assert asked == 1 + 3 * (1 + 2 + 1)  # extraction; for each variant the rewriting, the guesses and the assessment
    store = task.parent / "store"
    calls = query(
        store,
        "select model_called.role::varchar, count(*) from events where type = 'model_called' group by all order by 1",
    )
    assert calls == [("extractor", 1), ("judge", 9), ("rewriter", 3)]
    shown = called("variants", "show", store, "guests").stdout
    said = "gate: the rules find nothing, nor does local-model (0 of 2 guesses right)"
    assert shown.count(f"{said}; unjudged: recoverable_from_files") == 3


@pytest.mark.thorough
def test_what_the_judge_gets_back_is_refused_and_told_to_the_rewriter(task):
    """The rewriter is told three times who got the value back; then the variant is given up with this finding."""
    with server_beside(HandlerModel(lambda body: author(body, guess="March 14th, 2019"))) as server:
        done = generate(task, server.url, "--judge", "local-model", "--guesses", "1")
        told = [asked_of(body).problems for body in server.requests if not (is_guess(body) or is_assessment(body))]
    assert done.returncode == 0, done.stderr
    assert "1 recoverable_by_paraphrase" in done.stdout
    assert sum("1 of 1 readers got S3 back from the prompt" in (each or "") for each in told) == 2
    shown = called("variants", "show", task.parent / "store", "guests").stdout
    assert "[vaguify] not made: recoverable_by_paraphrase: 1 of 1 readers got S3 back" in shown


@pytest.mark.thorough
def test_a_judge_that_comes_later_judges_what_was_made_without_one(task):
    """Nothing is made again: two variants get its judgement, one is withdrawn; that counts wherever variants do."""
    replies = [author, lambda body: author(body, guess="March 14th, 2019")]
    with server_beside(HandlerModel(lambda body: replies[0](body=body))) as server:
        generate(task, server.url)
        store = task.parent / "store"
        shown = called("variants", "show", store, "guests").stdout
        points = ", ".join(UNJUDGED)
        assert shown.count(f"gate: the rules find nothing; unjudged: {points}") == 3
        del replies[0]
        words = ("--judge", "local-model", "--guesses", "1")
        later, asked = generate(task, server.url, *words), len(server.requests)
        again = generate(task, server.url, *words)
        assert len(server.requests) == asked
    assert (later.returncode, again.returncode) == (0, 0), later.stderr
    calls = query(store, "select model_called.role::varchar from events where type = 'model_called'")
    assert Counter(role for (role,) in calls) == {
        "extractor": 1,
        "rewriter": 3,
        "judge": 3 * 2,
    }
    shown = called("variants", "show", store, "guests").stdout
    assert shown.count("nor does local-model (0 of 1 guesses right)") == 2
    assert "[vaguify] not made: recoverable_by_paraphrase: 1 of 1 readers got S3 back" in shown
    (rewriter,) = query(
        store, "select n_accepted, n_refused, n_judged, attempts from generation_methods where step = 'rewriting'"
    )
    assert rewriter == (2, 1, 2, 3)
    index = load_generation_index(read_snapshot(store))
    assert [made.judgement.judge for made in index.variants.values()] == ["local-model"] * 2
    left = Registrations.read(read_snapshot(store)).of_experiment()
    assert {each.event.variant.variant_id for each in left} == {
        made.variant.variant_id for made in index.variants.values()
    }


@pytest.mark.thorough
def test_what_another_judge_decided_is_counted(task):
    """Two variants that pass and one that was given up stay as they are, with another judge and with none."""
    with server_beside(HandlerModel(lambda body: author(body, guess="March 14th, 2019"))) as server:
        first = generate(task, server.url, "--judge", "local-model", "--guesses", "1")
        later = [generate(task, server.url, *words) for words in (("--judge", "local-model", "--guesses", "2"), ())]
    assert "another judge" not in first.stderr
    for done in later:
        assert "2 of them and 1 refused ones keep the judgement of another judge" in done.stderr


@pytest.mark.parametrize("command", ["generate", "pipeline"])
def test_no_rules_judge(command, tmp_path):
    """A judge is a model: any other name is refused before all work."""
    done = called(command, "desk", "--judge", "rules", "--store", tmp_path / "store")
    assert done.returncode == 2
    assert done.stderr.startswith("lhaw-record: model 'rules' names no provider known to litellm")
    assert not (tmp_path / "store").exists()


@pytest.mark.thorough
def test_a_judge_is_measured_on_the_kept_set(tmp_path):
    """Rates of the rules, the model and both; a judge that finds nothing misses all and refuses nothing, once paid."""
    judge = ("--judge", "local-model", "--guesses", "1", "--price", "1", "1", "--format", "json")
    words = ("--set", "seen", "--store", tmp_path / "store", *judge)
    with server_beside(HandlerModel(author)) as server:
        done = called("variants", "gate", *words, "--api-base", server.url)
        asked = len(server.requests)
        again = called("variants", "gate", *words, "--api-base", server.url)
        assert len(server.requests) == asked
    assert done.returncode == 0, done.stderr
    assert again.stdout == done.stdout
    assert "0.0000 USD" in again.stderr
    rows = {row["judge"]: row for row in json.loads(done.stdout)}
    assert list(rows) == ["rules", "local-model", "rules + local-model"]
    assert {name: (row["missed"], row["refused"]) for name, row in rows.items()} == {
        "rules": (0, 0),
        "local-model": (13, 0),
        "rules + local-model": (0, 0),
    }
    refused = called("variants", "gate", "--judge", "local-model")
    assert refused.returncode == 2
    assert "--store" in refused.stderr


@pytest.mark.thorough
def test_a_server_that_never_answers_ends_the_command(task):
    """Each request has a limit, and the message says what to raise; nothing is made up and the work is owed."""
    with server_beside(HandlerModel(author), [Fault(kind="hang", times=None)]) as server:
        done = generate(task, server.url, "--request-timeout", "0.2")
    assert done.returncode == 1
    assert re.search(r"failed: guests: .*no reply in time", done.stderr)
    assert "1 extractions and rewritings left" in done.stderr


@pytest.mark.thorough
def test_methods_are_compared(task):
    """A model that overlooks one of the three values that another finds agrees by 2 * 2 / (2 + 3) with it."""
    with server_beside(HandlerModel(lambda body: author(body, overlooks=("Ada Byron",)))) as server:
        generate(task, server.url)
    with server_beside(HandlerModel(author, "other-model")) as server:
        generate(task, server.url, "--extractor", "other-model", "--rewriter", "other-model")
    rows = json.loads(called("sql", task.parent / "store", "-c", "from generation_methods", "--format", "json").stdout)
    by_method = {(row["step"], row["method"]): row for row in rows}
    assert {
        name: (row["n_accepted"], row["n_refused"], row["agreement"])
        for (step, name), row in by_method.items()
        if step == "extraction"
    } == {"local-model": (2, 0, 0.8), "other-model": (3, 0, 0.8)}
    written = by_method["rewriting", "local-model"]
    assert (written["n_accepted"], written["n_refused"], written["attempts"]) == (2, 0, 2)
    assert by_method["extraction", "local-model"]["cost_usd"] > 0 < written["cost_usd"]


@pytest.mark.thorough
def test_a_server_without_usage_has_no_cost_and_ends_a_run_with_a_limit(task):
    """The first reply of unknown price stops the run, which says that the limit cannot be kept; unknown is not 0."""
    with server_beside(Silent(author)) as server:
        done = generate(task, server.url, "--max-cost-usd", "1")
    assert done.returncode == 1
    assert "--max-cost-usd cannot be kept: a reply came without its token counts" in done.stderr
    assert "cost unknown" in done.stderr
    cost = "select model_responded.usage.cost_usd from events where type = 'model_responded'"
    assert query(task.parent / "store", cost) == [(None,)]
