"""Simulated users are measured on labelled questions: what the numbers count, what a set may hold, and who may ask."""

import json

import anyio
import pytest

from lhaw_record.generators.errors import SourceError
from lhaw_record.generators.generation.user_calibration import bundled_sets, outcomes_of, read_set, user_rates
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.users.simulated_user.protocol import UserAnswer, UserKnowledge
from lhaw_record.runners.users.simulated_user.readings import reading_of
from tests.cli.program import called
from tests.support.chat_server import server_beside
from tests.support.generation_model import HandlerModel

SEGMENTS = [
    {"segment_id": "S1", "dimension": "goal", "subdimension": "target", "value": "overview.xlsx"},
    {"segment_id": "S2", "dimension": "constraint", "subdimension": "numeric_bound", "value": "1,000 EUR"},
]
VARIANT = {
    "id": "payments",
    "kind": "office",
    "language": "en",
    "full_prompt": "Sum the payments from 1,000 EUR. Save the result as overview.xlsx.",
    "sent_prompt": "Sum the larger payments. Save the result.",
    "segments": SEGMENTS,
}


def question(text, *asks_for, variant="payments", kind="plain"):
    """A question of a set."""
    return {"variant": variant, "question": text, "asks_for": list(asks_for), "kind": kind}


@pytest.fixture
def write(tmp_path):
    """Write a set, or any JSON, and return its path."""

    def written(*questions, variants=(VARIANT,), name="set.json", whole=None):
        path = tmp_path / name
        path.write_text(
            json.dumps(whole or {"author": "x", "half": "seen", "variants": variants, "questions": questions})
        )
        return path

    return written


class Told:
    """A user who reveals for each question the segments that a test says."""

    name = "told"
    is_person = False

    def __init__(self, **revealed):
        self._revealed = revealed

    async def answer(self, question, context, knowledge):
        """Reveal them."""
        gives = self._revealed[question].split()
        return UserAnswer(
            text="", readings=(reading_of("test", knowledge, asks_for=gives, gives=gives, is_for_everything=False),)
        )


def measured(path, simulator, names=None):
    """The rows of a set by group."""
    outcomes = [each for user in read_set(path, names, {}) for each in anyio.run(outcomes_of, user, simulator)]
    return {row["group"]: row for row in user_rates(outcomes)}


def test_recall_precision_and_leaks_count_what_they_say(write):
    """By hand: 1 of 3 aimed questions got all of it; 2 of 4 reveals were asked for; 1 of 2 others leaked."""
    path = write(
        question("a", "S1"),
        question("b", "S1", "S2", kind="two_at_once"),
        question("c", "S2", kind="terse"),
        question("d", kind="fishing"),
        question("Wo ist die Datei und wie heißt sie", kind="unrelated"),
    )
    rows = measured(path, Told(a="S1", b="S1", c="S1", d="S2", **{"Wo ist die Datei und wie heißt sie": ""}))
    all_of_it = rows[""]
    assert (all_of_it["aimed"], all_of_it["found"], all_of_it["recall"]) == (3, 1, 0.333)
    assert (all_of_it["revealed"], all_of_it["wanted"], all_of_it["precision"]) == (4, 2, 0.5)
    assert (all_of_it["aimless"], all_of_it["leaks"], all_of_it["leak_rate"]) == (2, 1, 0.5)
    assert all_of_it["recall_low"] is None  # one variant does not show how much variants differ
    assert (rows["two_at_once"]["found"], rows["two_at_once"]["precision"]) == (0, 1.0)
    assert (rows["fishing"]["leaks"], rows["unrelated"]["leaks"], rows["fishing"]["recall"]) == (1, 0, None)
    assert (rows["en"]["aimless"], rows["de"]["aimless"]) == (1, 1)


def test_intervals_are_over_variants(write):
    """Five variants or more have one; the same answers to more questions of each variant hardly make it narrower."""

    def interval(count):
        variants = [{**VARIANT, "id": f"v{number}"} for number in range(10)]
        asked = [question(f"q{one}", "S1", variant=each["id"]) for each in variants for one in range(count)]
        path = write(*asked, variants=variants)
        users = read_set(path, None, {})
        outcomes = [
            each
            for number, user in enumerate(users)
            for each in anyio.run(outcomes_of, user, Told(**{f"q{one}": "S1" * (number % 2) for one in range(count)}))
        ]
        row = next(user_rates(outcomes))
        return row["recall_high"] - row["recall_low"]

    assert interval(1) == pytest.approx(interval(8), abs=0.05)


def test_other_names_and_questions_of_a_second_file_are_known_to_the_user(write):
    """A question that no rule understands is answered once the second file expects it."""
    path = write(question("Purple elephants of which hue?", "S1"))
    names = write(whole={"payments": {"S1": {"questions": ["Purple elephants of which hue?"]}}}, name="names.json")
    rows = [
        json.loads(called("variants", "user", path, "--format", "json", *words).stdout)[0]
        for words in ((), ("--names", names))
    ]
    assert [row["found"] for row in rows] == [0, 1]


def test_a_variant_without_an_entry_is_one_of_desk(write):
    """Its user knows what the bundled variant says."""
    desk = DeskBenchmark()
    variant = next(each for each in desk.variants() if each.expected_questions and not each.follow_up)
    prompt = next(each.prompt for each in desk.tasks() if each.task_id == variant.task_id)
    wanted = variant.expected_questions[0]
    path = write(question(wanted.questions[0], wanted.segment_id, variant=variant.variant_id), variants=())
    shown = called("variants", "user", path, "--format", "json")
    assert json.loads(shown.stdout)[0]["recall"] == 1
    known = {variant.variant_id: UserKnowledge.of_variant(prompt, variant)}
    assert read_set(path, None, known)[0].knowledge.removed == variant.segments


GOOD = question("Which file?", "S1")


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        ({"questions": []}, "the file has no questions"),
        ({"questions": [{**GOOD, "variant": "nowhere"}]}, "questions[0]: there is no variant 'nowhere'"),
        (
            {"questions": [GOOD, {**GOOD, "asks_for": ["S9"], "question": "b"}]},
            "questions[1]: .*no segment 'S9'; it has S1",
        ),
        ({"questions": [GOOD, GOOD]}, "questions[1]: .*already has the question 'Which file\\?'"),
        ({"questions": [{**GOOD, "question": " "}]}, "questions[0]: the question is empty"),
        ({"questions": [{"variant": "payments", "question": "a"}]}, "key 'questions[0].asks_for' is missing"),
        ({"questions": [{**GOOD, "ask_for": []}]}, "unknown key 'questions[0].ask_for'"),
        ({"questions": [GOOD], "variants": [{**VARIANT, "segments": [{**SEGMENTS[0], "sinonyms": []}]}]}, "sinonyms"),
        ([], "set.json: "),
    ],
)
def test_a_set_that_cannot_be_used_is_refused_with_file_and_place(write, whole, said):
    """A sentence, not a traceback."""
    content = {"variants": [VARIANT], **whole} if isinstance(whole, dict) else [1]
    path = write(whole=content)
    pattern = "set.json: .*" + said.replace("[0]", r"\[0\]").replace("[1]", r"\[1\]")
    with pytest.raises((SourceError, ExperimentError), match=pattern if isinstance(whole, dict) else said):
        read_set(path, None, {})


def test_names_of_an_unknown_segment_and_a_file_without_json_are_refused(write, tmp_path):
    """The message names the second file and the key in it."""
    path, names = write(GOOD), write(whole={"payments": {"S7": {}}}, name="names.json")
    with pytest.raises(SourceError, match=r"names.json: key 'payments': no variant of this name has a segment 'S7'"):
        read_set(path, names, {})
    for content in (b"\xff", b"{"):
        (tmp_path / "bad.json").write_bytes(content)
        with pytest.raises(SourceError, match=r"bad\.json: the file is not readable JSON"):
            read_set(tmp_path / "bad.json", None, {})
    assert "the file is not readable JSON" in called("variants", "user", tmp_path / "missing.json").stderr


def test_every_bundled_set_can_be_read():
    """Each has its own variants, or those of desk."""
    desk = DeskBenchmark()
    prompts = {each.task_id: each.prompt for each in desk.tasks()}
    known = {each.variant_id: UserKnowledge.of_variant(prompts[each.task_id], each) for each in desk.variants()}
    assert all(read_set(path, None, known) for path in bundled_sets().values())


def asker(body):
    """Ask for each detail in the agent's place, or answer as the user."""
    text = body["messages"][-1]["content"]
    if "The whole prompt:" not in text:
        return json.dumps({"answer": "Save it as overview.xlsx." if "file" in text else "Use your best judgment."})
    asked = [{"question": "What is the file called?", "asks_for": ["S1"], "kind": "plain"}]
    return json.dumps({"questions": [*asked, {"question": "Tell me all.", "asks_for": [], "kind": "fishing"}]})


def model_words(server, store):
    """The options that name the model of a server."""
    return ("--store", store, "--api-base", server.url, "--price", "1", "1", "--format", "json")


@pytest.mark.thorough
def test_a_model_as_the_user_is_measured_and_not_paid_twice(write, tmp_path):
    """Its calls are in the store, under an experiment of their own."""
    path = write(question("What is the output file called?", "S1"))
    with server_beside(HandlerModel(asker)) as server:
        words = ("--simulator", "llm", "--user-model", "local-model", *model_words(server, tmp_path / "store"))
        first = called("variants", "user", path, *words)
        asked = len(server.requests)
        again = called("variants", "user", path, *words)
        assert (len(server.requests), first.returncode) == (asked, 0), first.stderr
    assert asked > 0
    assert json.loads(first.stdout)[0]["recall"] == 1
    assert first.stdout == again.stdout


@pytest.mark.thorough
def test_a_model_asks_about_the_variants_of_a_store(tmp_path):
    """The questions are of its writing; one that tells a value, or asks for an unknown id, is asked for again."""
    store, replies = tmp_path / "store", []

    def model(body):
        ids = [
            each.split('"segment_id":"')[1].split('"')[0]
            for each in body["messages"][1]["content"].split("\n")
            if '"segment_id":"' in each
        ]
        replies.append(ids)
        name = "S99" if len(replies) == 1 else ids[0]
        return json.dumps({"questions": [{"question": "Which one do you mean?", "asks_for": [name], "kind": "plain"}]})

    made = called("generate", "desk", "--store", store, "--task", "expense-audit", "--per-task", "2")
    assert made.returncode == 0, made.stderr
    with server_beside(HandlerModel(model)) as server:
        done = called("variants", "user", "--asker", "local-model", *model_words(server, store))
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)[0]
    assert whole["aimed"] == len(replies) - 1 > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name a set of questions, or --asker"),
        (("set.json", "--asker", "m"), "name a set of questions, or --asker"),
        (("set.json", "--simulator", "llm"), "--user-model MODEL belong together"),
        (("--asker", "m"), "--store DIR belongs to --asker"),
        (("set.json", "--store", "x"), "--store DIR belongs to --asker"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(words, said):
    """Before anything is read or paid."""
    assert said in called("variants", "user", *words).stderr
