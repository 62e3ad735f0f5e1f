"""The embedded rewriter on sentences of our own: what each severity makes of them."""

import re

import pytest

from generators.errors import RewritingFailed
from generators.protocol import Removal, SourceTask
from generators.rewriting import problems_of
from recorder.values import Task
from tests.generators.rewriting.making import REWRITER, rewritten, segment

# Each case: the prompt, the segment, and the prompt deleted, vaguified and genericized.
CASES = [
    (
        "Open the `orders_may.csv` file and count the rows.",
        segment("orders_may.csv"),
        "Open the file and count the rows.",
        "Open the file and count the rows.",
        "Open the relevant file and count the rows.",
    ),
    (
        "Read orders_may.csv and count the rows.",
        segment("orders_may.csv"),
        "Read the file and count the rows.",
        "Read the file and count the rows.",
        "Read the relevant file and count the rows.",
    ),
    (
        'Put the plan into a folder called "/home/ada/plans" and tell Ada.',
        segment("/home/ada/plans", "goal", "target"),
        "Put the plan into a folder and tell Ada.",
        "Put the plan into a folder with the agreed name and tell Ada.",
        "Put the plan into a folder with a suitable name and tell Ada.",
    ),
    (
        "Save the chart as trend.png in the shared folder.",
        segment("trend.png", "goal", "target"),
        "Save the chart in the shared folder.",
        "Save the chart under the agreed name in the shared folder.",
        "Save the chart under a suitable name in the shared folder.",
    ),
    (
        "List the 7 oldest tickets of the queue.",
        segment("7", "constraint", "numeric_bound"),
        "List the oldest tickets of the queue.",
        "List the oldest tickets of the queue.",
        "List the relevant oldest tickets of the queue.",
    ),
    (
        "Flag every bill above 250 EUR or older than a year.",
        segment("250 EUR", "constraint", "numeric_bound"),
        "Flag every bill older than a year.",
        "Flag every bill above a certain amount or older than a year.",
        "Flag every bill above a suitable amount or older than a year.",
    ),
    (
        "Round all amounts to 3 decimal places. Then write the total.",
        segment("3 decimal places", "constraint", "precision"),
        "Round all amounts. Then write the total.",
        "Round all amounts to a certain number of decimal places. Then write the total.",
        "Round all amounts to an appropriate number of decimal places. Then write the total.",
    ),
    (
        "Use the columns 'name', 'city' and 'amount' in the table.",
        segment("'name', 'city' and 'amount'", "goal", "content"),
        "Use the columns in the table.",
        "Use the columns in the table.",
        "Use the relevant columns in the table.",
    ),
    (
        "Paint the header in teal (#008080) and keep the rest.",
        segment("teal (#008080)", "goal", "format"),
        "Paint the header and keep the rest.",
        "Paint the header in a certain color and keep the rest.",
        "Paint the header in a suitable color and keep the rest.",
    ),
    (
        "Late means arriving after 09:15, while early means leaving before noon.",
        segment("09:15", "constraint", "temporal"),
        "Early means leaving before noon.",
        "Late means arriving after a certain time, while early means leaving before noon.",
        "Late means arriving after a suitable time, while early means leaving before noon.",
    ),
    (
        "Invite Ada Berg, Bo Chan and Cy Dorn to the meeting.",
        segment("Ada Berg, Bo Chan and Cy Dorn"),
        "Invite people to the meeting.",
        "Invite certain people to the meeting.",
        "Invite suitable people to the meeting.",
    ),
    (
        "Write the names, sorted by age descending, to names.txt.",
        segment("sorted by age descending", "goal", "format"),
        "Write the names, to names.txt.",
        "Write the names, sorted in a certain order, to names.txt.",
        "Write the names, sorted in a suitable order, to names.txt.",
    ),
    (
        "Create a template that can be used every year, named plan.odt.",
        segment("can be used every year", "constraint", "selection"),
        "Create a template, named plan.odt.",
        "Create a template that meets certain conditions, named plan.odt.",
        "Create a template that meets the appropriate conditions, named plan.odt.",
    ),
    (
        "Write a notice to the staff, named notice.odt and saved in the shared folder.",
        segment("notice.odt", "goal", "target"),
        "Write a notice to the staff, saved in the shared folder.",
        "Write a notice to the staff with the agreed name and saved in the shared folder.",
        "Write a notice to the staff with a suitable name and saved in the shared folder.",
    ),
    (
        "Late arrival is defined as not being there at nine. Count it for each clerk of the town hall.",
        segment("not being there at nine", "context", "terminology"),
        "Count it for each clerk of the town hall.",
        "Late arrival is defined as discussed. Count it for each clerk of the town hall.",
        "Late arrival is defined in the usual way. Count it for each clerk of the town hall.",
    ),
    (
        "Write about the town with sections such as history, people and food.",
        segment("history, people and food", "goal", "content"),
        "Write about the town with sections.",
        "Write about the town with sections such as the ones we discussed.",
        "Write about the town with sections such as the usual ones.",
    ),
    (
        "You must drop all drafts, and then count the pages.",
        segment("drop all drafts", "constraint", "method"),
        "You must count the pages.",
        "You must handle the rest as discussed, and then count the pages.",
        "You must do the rest as appropriate, and then count the pages.",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1].value)
def test_what_each_severity_makes_of_a_sentence(case):
    """The three severities give these sentences, and the checks pass them."""
    prompt, removed, *expected = case
    for severity, text in zip(("delete", "vaguify", "genericize"), expected, strict=True):
        rewriting = rewritten(prompt, severity, removed)
        assert rewriting.prompt == text
        assert problems_of(prompt, rewriting, Removal(segments=(removed,), severity=severity)) == ()


def test_every_occurrence_goes():
    """A file is gone where it is named again: in another case, without its ending, and at the end of a path."""
    prompt = "Read Sales_2024.xlsx. The sales_2024 sheet counts. Save your changes to /data/Sales_2024.xlsx today."
    text = rewritten(prompt, "delete", segment("Sales_2024.xlsx")).prompt
    assert text == "Read the spreadsheet. The sheet counts. Save your changes to /data/ today."


def test_a_path_goes_as_a_prefix():
    """A folder is taken off the paths below it, and the file names stay."""
    prompt = "Work in the /srv/lab directory and write /srv/lab/link.txt there."
    text = rewritten(prompt, "delete", segment("/srv/lab", "goal", "target")).prompt
    assert text == "Work in the directory and write link.txt there."


def test_a_value_inside_another_word_stays():
    """``report.xlsx`` is not ``old_report.xlsx``, and 50 is not 500, 50.5 or Q50."""
    prompt = "Compare report.xlsx with old_report.xlsx and report.xlsx.bak. Take 50 rows, not 500, 50.5 or Q50 rows."
    both = (segment("report.xlsx"), segment("50 rows", "constraint", "numeric_bound", segment_id="S2"))
    text = rewritten(prompt, "delete", *both).prompt
    assert text == (
        "Compare the spreadsheet with old_report.xlsx and report.xlsx.bak. Take some rows, not 500, 50.5 or Q50 rows."
    )


def test_a_small_number_is_a_fact_only_beside_its_noun():
    """Of two fives only that goes which counts the same thing; a list number is none."""
    prompt = "1. List the 5 best shops.\n2. Wait 5 minutes.\n5. Send the 5 best shops by mail.\n"
    text = rewritten(prompt, "delete", segment("5", "constraint", "numeric_bound")).prompt
    assert text == "1. List the best shops.\n2. Wait 5 minutes.\n5. Send the best shops by mail.\n"


@pytest.mark.parametrize("other", ["1000 EUR", "1,000 EUR", "1.000 EUR", "1 000 EUR", "1k EUR"])
def test_other_number_formats_go_too(other):
    """A limit is gone in every usual notation."""
    prompt = f"Flag every bill over 1,000 EUR. A bill of {other} is fine."
    text = rewritten(prompt, "vaguify", segment("1,000 EUR", "constraint", "numeric_bound")).prompt
    assert other.split()[0] not in text


def test_two_members_of_one_enumeration():
    """Two values of one sentence go one after the other, and no comma or conjunction is left over."""
    prompt = "Compare the sales of 2019, 2021 and 2023 with each other."
    removed = [
        segment(year, "constraint", "temporal", segment_id=f"S{number}")
        for number, year in enumerate(("2019", "2023"), start=1)
    ]
    assert rewritten(prompt, "delete", *removed).prompt == "Compare the sales of 2021 with each other."


def test_a_value_inside_another():
    """Of a value inside a longer one nothing is left, and the longer one is replaced once."""
    prompt = "Use the report for Lyon called lyon.csv. Lyon is in France."
    removed = (segment("report for Lyon called lyon.csv"), segment("Lyon", segment_id="S2"))
    text = rewritten(prompt, "vaguify", *removed).prompt
    assert "lyon" not in text.lower()
    assert text.startswith("Use the file.")


def test_a_list_item_goes_and_the_numbers_close_up():
    """A numbered item that is nothing but the value goes, and those below it move up, unless a number is spoken of."""
    prompt = "Do this:\n1. Open the table\n2. Sort it by age\n3. Save it\n"
    removed = segment("Sort it by age", "goal", "format")
    assert rewritten(prompt, "delete", removed).prompt == "Do this:\n1. Open the table\n2. Save it\n"
    spoken = prompt + "After step 3 tell me.\n"
    assert (
        rewritten(spoken, "delete", removed).prompt
        == "Do this:\n1. Open the table\n3. Save it\nAfter step 3 tell me.\n"
    )


def test_tables_and_code_keep_their_form():
    """A cell is emptied and its row stays; in a code fence a keyword argument goes with its comma."""
    table = "Apply these limits to the files:\n\n| file | limit |\n|---|---|\n| a.csv | 5 % |\n| b.csv | 7 % |\n"
    text = rewritten(table, "delete", segment("5 %", "constraint", "numeric_bound")).prompt
    assert text == table.replace("5 %", "")
    code = "Load it like this:\n\n```python\nread(path, sep='|', skip=3)\n```\n\nThen count the rows of the table.\n"
    text = rewritten(code, "delete", segment("'|'", "constraint", "method")).prompt
    assert text == code.replace("sep='|', ", "")


def test_windows_line_endings_stay():
    """Lines end as they did."""
    prompt = (
        "Do the following with care.\r\n\r\n- Read a.csv\r\n- Use EUR for all of the amounts\r\n- Send it to Ada\r\n"
    )
    text = rewritten(prompt, "delete", segment("Read a.csv")).prompt
    assert text == prompt.replace("- Read a.csv\r\n", "")


@pytest.mark.parametrize(
    ("prompt", "value", "expected"),
    [
        (
            "Bitte lies die Datei `umsatz_24.csv` und fasse sie zusammen.",
            "umsatz_24.csv",
            "Bitte lies die Datei und fasse sie zusammen.",
        ),
        ("请打开 `report_q3.xlsx` 文件\uff0c并保存结果。", "report_q3.xlsx", "请打开 文件\uff0c并保存结果。"),
        ("请把结果保存到“销售部”目录里。", "销售部", "请把结果保存到目录里。"),
        ("Открой «план.xlsx» и посчитай сумму за 2024 год.", "2024", "Открой «план.xlsx» и посчитай сумму за год."),
        ("Открой «план.xlsx» и посчитай сумму.", "план.xlsx", "Открой и посчитай сумму."),
        ("「売上.csv」を読み込み、結果を保存してください。", "売上.csv", "を読み込み、結果を保存してください。"),
        ("读取文件“五月.csv”,保存到“结果.xlsx”,截止3月。", "五月.csv", "读取文件,保存到“结果.xlsx”,截止3月。"),
    ],
)
def test_other_languages_lose_the_value_and_nothing_else(prompt, value, expected):
    """Where the words are not English, value and quotes go and the rest stays as it was."""
    assert rewritten(prompt, "delete", segment(value)).prompt == expected


@pytest.mark.parametrize(
    ("prompt", "value"),
    [
        ("Bitte lies die Datei `umsatz_24.csv` und fasse sie zusammen.", "umsatz_24.csv"),
        ("Lies umsatz.csv und sende sie bis zum 14. März 2025 als fertig.xlsx an uns.", "2025"),
        ("读取文件“五月.csv”,保存到“结果.xlsx”,截止日期为2025年3月14日。", "2025年3月14日"),
        ("매출.csv 파일을 읽고 이상인 행만 결과.xlsx에 저장하세요.", "결과.xlsx"),
    ],
)
def test_a_vague_value_in_another_language_is_refused(prompt, value):
    """Nothing can be said vaguely in another language, and no English word is put there: the check says so."""
    removal = Removal(segments=(segment(value),), severity="vaguify")
    made = REWRITER.rewriting(prompt, removal)
    assert not re.search("[a-z]{3,} ?[a-z]* (?:file|time|date)", made.prompt), made.prompt
    problems = problems_of(prompt, made, removal)
    assert [problem.check for problem in problems] == ["something_stands_in_its_place"]


@pytest.mark.parametrize(("severity", "said"), [("vaguify", "a certain number"), ("genericize", "a suitable number")])
def test_a_quoted_plural_goes_with_its_ending(severity, said):
    """What stands for "0"s is one thing: no letter is left behind the quotes."""
    prompt = 'Some values are missing, so fill the gaps by putting in "0"s.'
    made = rewritten(prompt, severity, segment("0", "constraint", "numeric_bound"))
    assert made.prompt == prompt.replace('"0"s', said)


def test_a_short_list_in_english_is_english():
    """Headings and list items have few small words; known verbs and nouns show the language as well."""
    prompt = "# Task\n\n- [ ] Open **`orders.csv`** and sort by *date*\n- [ ] Save as `sorted.csv`\n\n| date | YYYY |\n"
    assert "Open the relevant file and sort" in rewritten(prompt, "genericize", segment("orders.csv")).prompt


@pytest.mark.parametrize(
    "prompt", ["保存大于250元的行。", "Сохрани строки больше 250 рублей в файл.", "احسب مجموع المبيعات فوق 250 ريال"]
)
def test_a_number_in_another_language_does_not_leave_its_unit_alone(prompt):
    """What a number counts would stand there alone; the message says so, and nothing is made."""
    with pytest.raises(RewritingFailed, match=r"'250' of S1 counts what stands behind it .* rewrite with a model"):
        rewritten(prompt, "delete", segment("250", "constraint", "numeric_bound"))


@pytest.mark.thorough
def test_a_value_that_occurs_thousands_of_times_in_a_script_without_spaces_is_taken_out():
    """50 kB of Chinese that repeat themselves are rewritten and compared place by place."""
    prompt = "读取文件并将金额大于250元的行保存。" * 2500
    removal = Removal(segments=(segment("250元", "constraint", "numeric_bound"),), severity="delete")
    made = REWRITER.rewriting(prompt, removal)
    assert made.prompt == prompt.replace("250元", "")
    assert problems_of(prompt, made, removal) == ()


def test_what_the_rules_cannot_say_is_an_error():
    """A bare question word cannot go, and a value that is not in the prompt is named."""
    with pytest.raises(RewritingFailed, match="no words for 'when'"):
        rewritten("Tell me when the train leaves.", "delete", segment("when", "goal", "target"))
    with pytest.raises(RewritingFailed, match=r"'gone\.csv' of S1 is not in the prompt"):
        rewritten("Read a.csv.", "delete", segment("gone.csv"))


async def test_a_second_attempt_is_none():
    """The rules give the same prompt again, so a second attempt fails and names the problems of the first."""
    task = Task(
        benchmark="own",
        benchmark_version="1",
        task_id="t",
        prompt="Read a.csv.",
        checkpoints=(),
        environment_digest="-",
    )
    removal = Removal(segments=(segment("a.csv"),), severity="delete")
    assert (await REWRITER.rewrite(SourceTask(task=task), removal, None)).prompt == "Read the file."
    with pytest.raises(RewritingFailed, match="too short"):
        await REWRITER.rewrite(SourceTask(task=task), removal, None, problems=["too short"])


def test_a_long_prompt_is_rewritten():
    """A prompt of 100 kB loses its value and passes the checks."""
    prompt = "".join(
        f"- Step {n}: add orders_{n}.csv and write the totals to out_{n}.md for the North.\n" for n in range(1400)
    )
    removed = segment("orders_77.csv")
    rewriting = rewritten(prompt, "delete", removed)
    assert len(prompt) > 100_000
    assert problems_of(prompt, rewriting, Removal(segments=(removed,), severity="delete")) == ()


def test_own_wordings_replace_the_bundled_ones(tmp_path):
    """A changed copy of a file is used, the others stay bundled, and the digest tells."""
    from generators.rewriting import RuleRewriter
    from recorder.resources import data_path

    text = data_path("generation", "rewriting.toml").read_text(encoding="utf-8")
    (tmp_path / "rewriting.toml").write_text(text.replace('"a certain {noun}"', '"some {noun} or other"'), "utf-8")
    own = RuleRewriter(tmp_path)
    removal = Removal(segments=(segment("250 EUR", "constraint", "numeric_bound"),), severity="vaguify")
    assert own.rewriting("Flag bills above 250 EUR.", removal).prompt == "Flag bills above some amount or other."
    assert own.digest != REWRITER.digest
