"""The hand-labelled segments: whole, of the prompts that they name, split as tests/generators/labels/README.md says."""

import csv
import hashlib
import re
from pathlib import Path

import pytest

from tests.generators.labelled import REAL, SPLITS, GoldSegment, LabelledPrompt, faults, read_labels, real_prompts
from tests.support.needs import needs

ROOT = Path(__file__).resolve().parents[2]
PAGE, GUIDE = ROOT / "docs" / "generating.md", ROOT / "tests" / "generators" / "labels" / "README.md"
TEXT = "Save it as out.csv in blue."


def labelled(*spans, text=TEXT):
    """Labels of an invented prompt; a third item says that the segment is nested."""
    segments = tuple(
        GoldSegment(
            start=start,
            end=end,
            dimension="goal",
            subdimension="target",
            kind="file_name",
            criticality=1.0,
            guessability=0.0,
            is_nested=bool(nested),
        )
        for start, end, *nested in spans
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    return LabelledPrompt(benchmark="b", task_id="t", prompt_sha256=digest, segments=segments)


@pytest.mark.parametrize("split", SPLITS)
def test_the_labels_are_in_order_and_nested_only_where_stated(split):
    """No segment occurs twice or overlaps another unless it is marked as lying inside it."""
    assert [fault for each in read_labels(split) for fault in faults(each, None)] == []


@needs("published")
def test_the_labels_fit_the_published_prompts():
    """Each of the 64 prompts has labels, its digest is the recorded one, and every span is trimmed and in range."""
    prompts = real_prompts()
    labels = [each for split in SPLITS for each in read_labels(split)]
    assert sorted((each.benchmark, each.task_id) for each in labels) == sorted(prompts)
    assert len(prompts) == 64
    assert [fault for each in labels for fault in faults(each, prompts[each.benchmark, each.task_id])] == []


@needs("published")
def test_a_label_stands_at_whole_words():
    """No span begins or ends inside a word."""
    prompts = real_prompts()
    for split in SPLITS:
        for each in read_labels(split):
            prompt = prompts[each.benchmark, each.task_id]
            for one in each.segments:
                before, after = prompt[max(0, one.start - 1) : one.start + 1], prompt[one.end - 1 : one.end + 1]
                assert not re.fullmatch(r"\w\w", before), (each.task_id, one.start)
                assert not re.fullmatch(r"\w\w", after), (each.task_id, one.end)


def test_the_split_is_the_one_that_the_guide_describes():
    """Families ordered by the SHA-256 of their name: the first 60 % of the tasks and their families are development."""
    members = {}
    for split in ("development", "test"):
        for each in read_labels(split):
            members.setdefault(each.benchmark, []).append((each.family or each.task_id, each.task_id, split))
    for rows in members.values():
        ordered = sorted(rows, key=lambda row: (hashlib.sha256(row[0].encode()).hexdigest(), row[1]))
        development = {family for family, _, _ in ordered[: round(0.6 * len(ordered))]}
        for family, task_id, split in rows:
            assert split == ("development" if family in development else "test"), task_id


@needs("published")
def test_the_later_prompts_are_the_tasks_that_need_more_than_owncloud():
    """All of them and no other, so that nobody chose; one shares sentences with prompts of development, and says so."""
    with (REAL / "tac" / "tasks_index.csv").open(encoding="utf-8", newline="") as file:
        others = [row["task"] for row in csv.DictReader(file) if row["owncloud_only"] == "0"]
    later = read_labels("later")
    assert sorted(("tac", task) for task in others) == sorted((each.benchmark, each.task_id) for each in later)
    earlier = {each.family for split in ("development", "test") for each in read_labels(split) if each.family}
    shared = [each.task_id for each in later if each.family in earlier]
    assert shared == ["hr-check-attendance-multiple-days-department-with-chat"]


def test_the_words_of_the_labels_are_those_of_the_guide():
    """Every dimension with its subdimension has a row on the page, every kind is in the guide, scores are of three."""
    page, guide = PAGE.read_text(encoding="utf-8"), GUIDE.read_text(encoding="utf-8")
    lines = re.findall(r"^\| (goal|constraint|input|context) \| (.+) \|$", page, re.MULTILINE)
    rows = {(name, each.strip()) for name, told in lines for each in re.sub(r" \(.*?\)", "", told).split(",")}
    kinds = set(re.findall(r"`(\w+)`", guide.split("`kind` is")[1].split("\n\n")[0]))
    segments = [one for split in SPLITS for each in read_labels(split) for one in each.segments]
    assert {(one.dimension, one.subdimension) for one in segments} <= rows
    assert {one.kind for one in segments} <= kinds
    assert {score for one in segments for score in (one.criticality, one.guessability)} == {0.0, 0.5, 1.0}


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        ([(11, 18), (22, 26)], None),
        ([(11, 18), (15, 18, True)], None),
        ([(11, 18), (15, 18)], "marked nested"),
        ([(11, 18), (15, 21, True)], "overlaps"),
        ([(11, 18), (11, 18)], "occur twice"),
        ([(22, 26), (11, 18)], "out of order"),
        ([(22, 26, True)], "marked nested and is not"),
        ([(11, 19)], "white space"),
        ([(22, 99)], "out of range"),
        ([(18, 18)], "out of range"),
    ],
)
def test_a_fault_in_the_labels_is_found(spans, said):
    """Each kind of fault is named; labels without one give none."""
    found = faults(labelled(*spans), TEXT)
    assert found == [] if said is None else any(said in fault for fault in found)


def test_labels_of_a_changed_prompt_are_refused():
    """One changed character is another prompt, whatever its offsets say."""
    assert "another prompt" in faults(labelled((11, 18)), TEXT.replace("blue", "Blue"))[0]
