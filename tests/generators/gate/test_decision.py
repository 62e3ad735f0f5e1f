"""The gate: one rewriting for each thing that it finds, and the good one in which it finds nothing."""

import pytest

from lhaw_record.generators.gate import Scene, problems_of
from lhaw_record.generators.gate.natural import faults
from lhaw_record.generators.protocol import Removal, Rewriting
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment

PROMPT = (
    "Please prepare the list of members for Ada.\n\n"
    "1. Open `members.xlsx` and keep everybody who joined before 14 March 2019.\n"
    "2. Sort the rows by town, then save them as members_old.csv.\n\n"
    "| column | form |\n|---|---|\n| joined | YYYY-MM-DD |\n\n"
    "The file members.xlsx itself must not change.\n"
)


def segment(value, dimension="input", subdimension="identifier", *, segment_id="S1", **more):
    """Return a segment with this value."""
    return Segment(segment_id=segment_id, value=value, dimension=dimension, subdimension=subdimension, **more)


REMOVED = segment("members.xlsx", text="Open `members.xlsx`", synonyms=("list of members", "MX-2019"))
DAY = segment("before 14 March 2019", "constraint", "temporal", segment_id="S2")
GOOD = PROMPT.replace("`members.xlsx`", "the file").replace("The file members.xlsx itself", "The file itself")


def findings(prompt=GOOD, *, severity="vaguify", removed=(REMOVED,), questions=None, original=PROMPT, **scene):
    """Return the names of what the gate finds in a rewriting."""
    asked = {"S1": ("Which file should I open?",)} if questions is None else questions
    rewriting = Rewriting(
        prompt=prompt,
        expected_questions=tuple(ExpectedQuestions(segment_id=key, questions=value) for key, value in asked.items()),
        failure_mode="Opens another file.",
    )
    removal = Removal(segments=removed, severity=severity)
    return [each.check for each in problems_of(original, rewriting, removal, Scene(**scene))]


@pytest.mark.parametrize("severity", ["vaguify", "genericize"])
def test_nothing_is_found_in_a_good_rewriting(severity):
    """All occurrences gone, the sentence mended, a question: nothing to object."""
    assert findings(severity=severity) == []


@pytest.mark.thorough
def test_a_deletion_puts_nothing_in_the_place_of_a_value():
    """A vague word there is another severity, unless a person wrote the passage anew."""
    assert findings(severity="delete") == ["severities_differ"]
    assert findings(severity="delete", extents=("Open `members.xlsx`",)) == []
    without = PROMPT.replace("Open `members.xlsx` and keep", "Keep").replace("The file members.xlsx", "The file")
    assert findings(without, severity="delete") == []


@pytest.mark.thorough
def test_a_deletion_may_move_words_and_leave_an_article():
    """What the sentence had, too, is not put in, and "both … keys" becomes "the keys"."""
    original = "Eighteen takes of the same\nline are in `./takes/` (`a.wav`). Compare both old and new keys of them."
    takes, keys = segment("./takes/", "input", "location"), segment("both old and new", segment_id="S2")
    asked = {"S1": ("Where are the takes?",), "S2": ("What should I compare?",)}
    moved = "`a.wav` is of eighteen takes of the same\nline. Compare the keys of them."
    found = findings(moved, severity="delete", removed=(takes, keys), questions=asked, original=original)
    assert "severities_differ" not in found
    put_in = moved.replace("the keys", "those keys")
    found = findings(put_in, severity="delete", removed=(takes, keys), questions=asked, original=original)
    assert "severities_differ" in found
    original = "Send the totals to Anna Berg and the receipts to someone in finance."
    anna, asked = segment("Anna Berg", "goal", "target"), {"S1": ("To whom should I send the totals?",)}
    copied = original.replace("Anna Berg", "someone")
    assert "severities_differ" in findings(
        copied, severity="delete", removed=(anna,), questions=asked, original=original
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("severity", "rewritten", "check"),
    [
        ("vaguify", "On 3 May, book the room I mentioned at Kew House for Ada and mail the plan to Bo", None),
        ("vaguify", "Book at Kew House for Ada on 3 May and mail the plan to Bo, the room I mentioned", None),
        ("delete", "Book for Ada on 3 May, at Kew House, and mail the plan to Bo", "nothing_else_changed"),
        ("delete", "Book with Kew House for Ada on 3 May and mail the plan to Bo", None),
        (
            "vaguify",
            "Book the room I mentioned at Kew House for Bo on 3 May and mail the plan to Ada",
            "nothing_else_changed",
        ),
    ],
)
def test_words_move_within_the_sentence_of_a_value(severity, rewritten, check):
    """A date may come first, words may follow the last one, a preposition mend a deletion; names keep their order."""
    original = "Book the room Turing at Kew House for Ada on 3 May and mail the plan to Bo"
    asked = {"S1": ("Which room should I book?",)}
    removed = (segment("Turing", text="Book the room Turing", synonyms=("the room Turing",)),)
    found = findings(rewritten, severity=severity, removed=removed, questions=asked, original=original)
    assert found == ([check] if check else [])


@pytest.mark.thorough
def test_a_main_clause_ends_with_no_preposition():
    """Only a clause about what stands before it may: "They worked for." lost its object."""
    original, removed = "They worked for Anna Berg. Ask for the file.", segment("Anna Berg", "goal", "target")
    asked = {"S1": ("For whom did they work?",)}
    found = findings("They worked for. Ask for the file.", removed=(removed,), questions=asked, original=original)
    assert "reads_well" in found


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("end", "is_fine"),
    [
        ("the file we talked about", True),
        ("the one I told you about", True),
        ("the place you asked for", True),
        ("the file about", False),
        ("the file we saved to", False),
    ],
)
def test_a_clause_may_end_with_its_preposition(end, is_fine):
    """Somebody in a hurry writes "the file we talked about"; elsewhere such a word lost what followed it."""
    original, removed = "Write the names to `out.txt`.", segment("out.txt", "goal", "target")
    asked = {"S1": ("Which file should I write the names to?",)}
    found = findings(f"Write the names to {end}.", removed=(removed,), questions=asked, original=original)
    assert found == ([] if is_fine else ["reads_well"])


@pytest.mark.parametrize(
    ("booked", "is_fine"),
    [
        ("Book the room I mentioned on 3 May.", False),
        ("Book the room we talked about on Friday.", False),
        ("On 3 May, book the room I mentioned.", True),
        ("Book the room we talked about in the annex.", True),
    ],
)
def test_an_earlier_talk_takes_no_day_of_something_else(booked, is_fine):
    """In "the room I mentioned on 3 May" the mentioning was on 3 May."""
    found = list(faults("On 3 May, or on Friday, book the room Turing in the annex.", booked))
    assert (found == []) == is_fine


@pytest.mark.parametrize("left", ["members.xlsx", "MEMBERS.XLSX", "\u201cMembers.xlsx\u201d", "MX-2019"])
def test_a_value_that_remains(left):
    """The value in another case, in quotes, or as a synonym that says the same, is found."""
    assert "value_is_gone" in findings(GOOD.replace("The file itself", f"The file {left} itself"))


@pytest.mark.parametrize(
    ("value", "rest", "is_told"),
    [
        ("last seven days", "a one-week rundown", True),
        ("last seven days", "what happened in the past week", True),
        ("3 days", "from March 12th to March 14th, 2022", True),
        ("30 days", "from April 20 to May 20", True),
        ("12 months", "the coming year", True),
        ("3 days", "from March 12th to March 19th, 2022", False),
        ("last seven days", "the weekly news", False),
        ("last five days", "next week", False),
    ],
)
def test_a_duration_that_the_rest_tells(value, rest, is_told):
    """A week is seven days, and two days of a month tell how many lie between them."""
    original = f"Plan the trip for the {value}. It is about {rest} for us. Leave nothing out."
    removed = segment(value, "constraint", "temporal")
    asked = {"S1": ("How long should it take?",)}
    found = findings(original.replace(value, "time"), removed=(removed,), questions=asked, original=original)
    assert ("value_is_gone" in found) == is_told


@pytest.mark.parametrize(
    "told",
    [
        "before 2019-03-14",
        "before 14/03/2019",
        "before March 14th, 2019",
        "before mid-March 2019",
        "up to the thirteenth of that March",
        "before Mar 14",
        "in the 18 years to 2018",
    ],
)
def test_a_value_in_another_notation(told):
    """A date in numbers, in words, in part, or counted from another one is not vague."""
    questions = {"S2": ("Until when may they have joined?",)}
    text = PROMPT.replace("before 14 March 2019", told)
    assert {"value_is_gone", "adds_nothing"} & set(findings(text, removed=(DAY,), questions=questions))
    vague = PROMPT.replace("before 14 March 2019", "some time ago")
    assert findings(vague, removed=(DAY,), questions=questions) == []


@pytest.mark.parametrize(
    "prompt",
    [
        GOOD.replace("for Ada", "for Bo"),
        GOOD.replace("Sort the rows by town", "Sort the rows by name"),
        GOOD.replace(", then save them as members_old.csv", ""),
        GOOD.replace(" before 14 March 2019", ""),
        GOOD + "Good luck!\n",
        "Dear assistant! " + GOOD,
    ],
)
def test_something_else_changed(prompt):
    """No other fact may be lost, and nothing may be put in elsewhere."""
    assert "nothing_else_changed" in findings(prompt)


FORM = (
    "Fit the model.\n- Success Criteria: Accuracy > 0.90 on the NMR set.\n"
    "- The tolerance is 0.001 (i.e., |KL - 10.0| <= 0.001).\n"
    'Check KL = 10.0 on the NMR set, and put the title April Report on the slide "/work/April Report.pptx".\n'
    "Score it by [mean rank](https://wiki.test/Mean_rank), as [the rules](https://wiki.test/Rules) say.\n"
)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("value", "severity", "was", "becomes", "is_fine"),
    [
        ("Accuracy > 0.90", "delete", "- Success Criteria: Accuracy > 0.90 on the NMR set.\n", "", True),
        ("Accuracy > 0.90", "vaguify", "Accuracy > 0.90 on the NMR set", "a good accuracy", False),
        ("0.001", "vaguify", "0.001 (i.e., |KL - 10.0| <= 0.001)", "small", True),
        ("0.001", "delete", "- The tolerance is 0.001 (i.e., |KL - 10.0| <= 0.001).\n", "", True),
        (
            "April Report",
            "vaguify",
            'April Report on the slide "/work/April Report',
            'we use on the slide "/work/slide',
            True,
        ),
        ("mean rank", "vaguify", "[mean rank](https://wiki.test/Mean_rank)", "the score we talked about", True),
        ("mean rank", "delete", " by [mean rank](https://wiki.test/Mean_rank)", "", True),
        (
            "mean rank",
            "vaguify",
            "[mean rank](https://wiki.test/Mean_rank), as [the rules](https://wiki.test/Rules)",
            "the score we talked about, as the rules",
            False,
        ),
    ],
)
def test_what_goes_as_a_whole(value, severity, was, becomes, is_fine):
    """A list item or brackets around the value may go if all else in them is said elsewhere, but not in part.

    The address of a link goes with the linked value.
    """
    assert was in FORM
    asked, removed = {"S1": ("What is wanted there?",)}, (segment(value, "goal", "acceptance"),)
    found = findings(FORM.replace(was, becomes), severity=severity, removed=removed, questions=asked, original=FORM)
    assert set(found) == (set() if is_fine else {"nothing_else_changed"})


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("value", "was", "becomes", "synonyms"),
    [
        ("euros", " (in euros, rounded down)", "", ()),
        ("euros", " (in euros; skip refunds)", "", ()),
        ("euros", " (in euros, without tax)", "", ()),
        ("2024", "of 2024 and write them to `out/sales_2024_final.csv`", "and write them to a file", ()),
        (
            "by customer",
            "by customer. Send it to the customer who buys most",
            ". Send it to whom you like",
            ("customer",),
        ),
    ],
)
def test_what_does_not_belong_to_a_value_stays(value, was, becomes, synonyms):
    """A rule of its own in the same brackets, the rest of a path, and what a word of the value says elsewhere."""
    original = f"Sum up the orders {was.strip()}. Then send me a note."
    prompt = original.replace(was.strip(), becomes.strip())
    asked, removed = {"S1": ("What do you want there?",)}, (segment(value, "goal", "content", synonyms=synonyms),)
    assert "nothing_else_changed" in findings(prompt, removed=removed, questions=asked, original=original)


@pytest.mark.thorough
def test_a_synonym_goes_with_its_value():
    """Another expression for the value, in whatever sentence, is part of the removal."""
    prompt = "Ask Ben for the filing date. He knows the day on which it was handed in. Write it to day.txt."
    lost = "Ask Ben for the detail. He knows it. Write it to day.txt."
    removed = segment("filing date", "goal", "content", synonyms=("the day on which it was handed in",))
    asked = {"S1": ("What should I ask Ben for?",)}
    assert findings(lost, removed=(removed,), questions=asked, original=prompt) == []
    alone = segment("filing date", "goal", "content")
    assert findings(lost, removed=(alone,), questions=asked, original=prompt)


def test_another_segment_is_gone():
    """A segment beside the removed one is named where it went, too."""
    other = segment("keep everybody", "goal", "selection", segment_id="S3")
    lost = GOOD.replace("Open the file and keep everybody who joined", "Open the file if somebody joined")
    assert "nothing_else_changed" in findings(lost, segments=(REMOVED, other))


@pytest.mark.parametrize(
    ("prompt", "check"),
    [
        (GOOD.replace("\n", "\r\n"), "structure_is_kept"),
        (GOOD.replace("| YYYY-MM-DD |", "|"), "structure_is_kept"),
        (GOOD.replace("the file and", "`the file and"), "structure_is_kept"),
        (GOOD.replace("the file and", "the (file and"), "structure_is_kept"),
        (GOOD.replace("the file and", "the the file and"), "reads_well"),
        (GOOD.replace("the file and", "`` and"), "reads_well"),
        (GOOD.replace("the file and", "the file , and"), "reads_well"),
        (GOOD.replace("the file and", "the and"), "reads_well"),
        (GOOD.replace("the file and", "the file from. And"), "reads_well"),
        ("Please prepare the list.", "is_still_a_task"),
        ("", "is_still_a_task"),
        (" \n", "is_still_a_task"),
        (PROMPT, "is_changed"),
        (GOOD.replace("the file and", "[removed] and"), "no_placeholder"),
        (GOOD.replace("the file and", "the file \u2026 and"), "no_placeholder"),
        (GOOD.replace("the file and", "{filename} and"), "no_placeholder"),
        ('{"prompt": "Open the file."}', "structure_is_kept"),
    ],
)
def test_form_length_and_placeholders(prompt, check):
    """Line ends, tables, quotes and brackets stay whole, the prompt stays a prompt, and nothing stands for a hole."""
    assert check in findings(prompt)


def test_words_that_refer_to_nothing():
    """What referred to a removed range or person may not stay behind."""
    original = "Sum the sales from 2025-01-02 to 2025-02-03, both days included. Ask Ada Berg and send her the sum."
    removed = segment("from 2025-01-02 to 2025-02-03", "constraint", "temporal")
    left = original.replace(" from 2025-01-02 to 2025-02-03", "")
    asked = {"S1": ("Which days do you mean?",)}
    assert "refers_to_something" in findings(left, removed=(removed,), questions=asked, original=original)
    nobody = original.replace("Ask Ada Berg and send", "Send")
    assert "refers_to_something" in findings(nobody, removed=(segment("Ada Berg"),), original=original)


def test_every_segment_has_a_question_that_keeps_the_value_and_is_answered():
    """A missing or blank question, one for an unknown segment, and one that tells are found."""
    assert findings(questions={}) == ["questions_exist"]
    assert findings(questions={"S1": (" ",)}) == ["questions_exist"]
    assert findings(questions={"S1": ("Which file?",), "S9": ("Which?",)}) == ["questions_exist"]
    assert findings(questions={"S1": ("Should I open members.xlsx?",)}) == ["questions_keep_the_secret"]
    assert findings(questions={"S1": ("Which list of members should I open?",)}) == []
    vague = PROMPT.replace("before 14 March 2019", "some time ago")
    told = findings(vague, removed=(DAY,), questions={"S2": ("Is it 2019-03-14?",)})
    assert told == ["questions_keep_the_secret"]


def test_severities_of_one_removal_differ():
    """The same prompt under another severity says nothing new."""
    assert findings(siblings={"delete": GOOD}) == ["severities_differ"]
    assert findings(siblings={"delete": GOOD + " "}) == []


def test_a_file_of_the_environment_tells_the_value():
    """The only file of its kind needs no name, nor does the number of lines of a file that the prompt names."""
    assert "files_keep_the_secret" in findings(files={"members.xlsx": "", "notes.txt": ""})
    assert findings(files={"members.xlsx": "", "members_2.xlsx": ""}) == []
    original = "Do all of it. Work through the 3 steps of steps.txt and tell me the results of each."
    removed, left = segment("3 steps"), original.replace("the 3 steps", "the steps")
    asked = {"S1": ("How many steps are there?",)}
    for text, is_told in (("a\nb\nc\n", True), ("a\nb\n", False)):
        found = findings(left, removed=(removed,), questions=asked, original=original, files={"steps.txt": text})
        assert ("files_keep_the_secret" in found) == is_told


def test_no_decimals_are_whole_numbers():
    """A number of decimals in other words is the value, none at all too."""
    original = "Open the price list and round each price to no decimals. Then tell me the sum of all of them."
    rounding = segment("no decimals", "constraint", "precision")
    for put_in, is_gone in (("whole numbers", False), ("something handy", True)):
        left = original.replace("no decimals", put_in)
        found = findings(left, removed=(rounding,), questions={"S1": ("How should I round?",)}, original=original)
        assert ("value_is_gone" not in found) == is_gone


def test_a_declared_passage_goes_with_its_segment():
    """What a person declared to belong to a segment is no loss; the same loss without that is one."""
    lost = GOOD.replace(" and keep everybody who joined before 14 March 2019", "")
    assert "nothing_else_changed" in findings(lost)
    assert findings(lost, extents=("Open `members.xlsx` and keep everybody who joined before 14 March 2019",)) == []


@pytest.mark.thorough
@pytest.mark.parametrize("scope", ["all", "every", "both"])
def test_all_may_not_go_with_a_value(scope):
    """Cancel all future calls: without "future" it still says all of them, unless "all" is in the value."""
    prompt = f"Look at the list of the club and cancel {scope} future calls with Olga for me."
    questions = {"S1": ("Which calls should I cancel?",)}
    for value, becomes, is_lost in (
        ("future", "", True),
        ("future", "some ", True),
        ("future", f"{scope} relevant ", False),
        (f"{scope} future", "the ", False),
    ):
        removed = segment(value, "constraint", "selection")
        rewritten = prompt.replace(f"{scope} future ", becomes)
        found = findings(rewritten, severity="vaguify", removed=(removed,), questions=questions, original=prompt)
        assert ("nothing_else_changed" in found) is is_lost, (value, becomes)


@pytest.mark.parametrize(
    ("rewritten", "is_spoilt"),
    [('{"task": "Read"  "out": 1}', True), ('{"task": "Read the file", "out": "out.json"}', False)],
)
def test_a_prompt_in_json_stays_json(rewritten, is_spoilt):
    """What a program reads must still be readable for it."""
    original = '{"task": "Read orders.csv", "out": "out.json"}'
    found = findings(rewritten, removed=(segment("orders.csv"),), severity="delete", original=original)
    assert ("structure_is_kept" in found) == is_spoilt


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("Do not delete", "Do delete"),
        ("must not be", "must be"),
        ("more than 20", "less than 20"),
        ("before you", "after you"),
        ("CSV or JSON", "CSV and JSON"),
        ("no header", "a header"),
        ("> 5", "< 5"),
        ("do not mail it", "do mail it"),
        ("is not yet", "is yet"),
    ],
)
def test_a_turned_demand(was, becomes):
    """A demand that became its opposite is found, in another sentence and beside the value in its own."""
    original = (
        "Do not delete the file. Open members.xlsx, but do not mail it if Ada is not yet back. It must not be printed. "
        "Ask if more than 20 rows stay, before you sort them. Write CSV or JSON with no header and values > 5."
    )
    good = original.replace("members.xlsx", "the list of members")
    assert findings(good, removed=(segment("members.xlsx"),), original=original) == []
    turned = findings(good.replace(was, becomes), removed=(segment("members.xlsx"),), original=original)
    assert "nothing_else_changed" in turned


WRAPPED = (
    "There are tables with 8 seats each, and a bar.\n\n"
    "- Guests from Linz sit as far from the kitchen as\n  the room allows.\n"
    "- Write `a.csv` and round the totals up.\n"
)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("value", "severity", "was", "becomes", "is_fine"),
    [
        (
            "from Linz",
            "delete",
            "- Guests from Linz sit as far from the kitchen as\n  the room allows.\n",
            "",
            True,
        ),
        ("from Linz", "genericize", "from Linz", "we look up for you", True),
        ("8 seats", "delete", " with 8 seats each", "", True),
        ("a.csv", "vaguify", "Write `a.csv`", "Write down the result", True),
        ("a.csv", "vaguify", "Write `a.csv` and round the totals up", "Write it and round the totals down", False),
    ],
)
def test_lines_of_one_sentence_and_words_of_one_verb(value, severity, was, becomes, is_fine):
    """A list item has all its lines; "up" and "down" turn a demand after "round", and not in "write down"."""
    assert was in WRAPPED
    found = findings(
        WRAPPED.replace(was, becomes),
        severity=severity,
        removed=(segment(value),),
        original=WRAPPED,
        questions={"S1": ("Which guests or which file?",)},
    )
    assert ("nothing_else_changed" not in found) is is_fine


def test_the_numbers_of_a_list_move_up():
    """The steps after a removed one get new numbers; the words of these steps stay."""
    original = "Do all of it.\n\n1. Open a.\n2. Read members.xlsx now.\n3. Close b.\n4. Go.\n"
    left = original.replace("2. Read members.xlsx now.\n", "").replace("3.", "2.").replace("4.", "3.")
    assert findings(left, severity="delete", removed=(segment("members.xlsx"),), original=original) == []
    closed = findings(left.replace("Close", "Open"), removed=(segment("members.xlsx"),), original=original)
    assert "nothing_else_changed" in closed


@pytest.mark.thorough
def test_a_prompt_of_200_kb_that_repeats_its_value_is_judged():
    """Three thousand places of one value: the time grows with the length, not with its square."""
    line = "The committee met on 3 May 2021 in Leeds and spent 45 EUR on tea, because it was cold. "
    original = "Summarise this.\n\n" + line * 3_000
    day = segment("3 May 2021", "constraint", "temporal")
    vague = original.replace("3 May 2021", "some day")
    found = findings(vague, removed=(day,), questions={"S1": ("On which day did it meet?",)}, original=original)
    assert found == []


@pytest.mark.thorough
def test_one_word_of_200_kb_is_judged():
    """The time grows with its length, not with its square."""
    original, removed = "a" * 200_000 + " is saved to tide_7.csv.", segment("tide_7.csv", "goal", "target")
    asked = {"S1": ("What should the file be called?",)}
    vague = original.replace("tide_7.csv", "a CSV file")
    assert findings(vague, severity="genericize", removed=(removed,), questions=asked, original=original) == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("value", "severity", "was", "becomes", "found"),
    [
        ("to 96", "delete", " to 96, and keep", ", keep", ["nothing_else_changed"]),
        ("to 96", "delete", " to 96, and keep", ", and keep", []),
        ("KX-908", "delete", ", frame number: KX-908", "", []),
        ("KX-908", "delete", "frame number: KX-908,", "frame number,", ["reads_well"]),
        ("grey, moss and rust", "delete", "the three colours, grey, moss and rust", "the colours", []),
        ("grey, moss and rust", "delete", "the three colours, grey, moss and rust", "the colours, moss", None),
        ("a.mp4, b.mp4", "delete", " the following files: a.mp4, b.mp4.", " files.", []),
        ("the brand Larkwell", "delete", "of the brand Larkwell", "of the brand", ["value_is_gone"]),
        ("Water the plants.", "vaguify", "Water the plants.", "what I said.", ["reads_well"]),
        ("Bath Airport", "genericize", "Bath Airport", "an airport", []),
    ],
)
def test_what_belongs_to_a_value_goes_with_it(value, severity, was, becomes, found):
    """A label, a number of items and what announces a value go with it; "and" stays, and nothing is half removed."""
    original = (
        "Raise the limit to 96, and keep the delay. Contract: 22, frame number: KX-908, mileage: 3140. "
        "Mention the three colours, grey, moss and rust. Open the following files: a.mp4, b.mp4. "
        "Skip orders of the brand Larkwell. Write a note with the following text: Water the plants. "
        "Start from Bath Airport."
    )
    assert was in original
    asked, removed = {"S1": ("Which one do you mean?",)}, (segment(value, "goal", "content"),)
    faults = findings(
        original.replace(was, becomes), severity=severity, removed=removed, questions=asked, original=original
    )
    assert faults == found if found is not None else faults


def test_a_question_may_not_say_a_coded_name_in_words():
    """The question for `gear-talk` does not speak of "gear talk"."""
    original, removed = "Post it in the forum gear-talk.", segment("gear-talk", "goal", "target")
    for question, is_told in (("Is it the forum gear talk?", True), ("In which forum should I post it?", False)):
        found = findings(
            "Post it in a forum.",
            severity="genericize",
            removed=(removed,),
            questions={"S1": (question,)},
            original=original,
        )
        assert ("questions_keep_the_secret" in found) == is_told


def test_a_file_whose_name_only_ends_like_the_value_tells_nothing():
    """old_members.xlsx is another file than members.xlsx; in a folder it is the same."""
    assert findings(files={"old_members.xlsx": "", "notes.txt": ""}) == []
    assert "files_keep_the_secret" in findings(files={"data/members.xlsx": "", "notes.txt": ""})


def test_a_decoy_inside_a_word_is_not_there():
    """The prompt must say the wrong value by itself."""
    removed = segment("before 14 March", "constraint", "temporal", decoy="ten")
    original = "Mark the sentence written before 14 March."
    said = findings("Mark the sentence written.", severity="decoy", removed=(removed,), original=original)
    assert "decoy_is_there" in said
