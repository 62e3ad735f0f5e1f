"""What the last words of a turn ask for: a line per kind of closing, and what may stand around it."""

import re
from contextlib import closing

import pytest

from lhaw_record.analytics.views.build_order import create_macros, empty_database
from lhaw_record.analytics.views.functions import register
from lhaw_record.recorder import prose
from lhaw_record.recorder.prose import asking_of
from tests.runners.imports.files import imported, query, write

QUESTIONS = (
    "Which period do you mean?",
    "**Which period do you mean?**",
    "Which ledger do you mean: 2024 or 2025?",
    "I cannot go on. Please tell me which period you mean.",
    "Please provide the name of the ledger.",
    "Could you clarify the period?",
    "Can you tell me the time zone?",
    "I need more information about the period.",
    "I need the exact period to continue.",
    "Once you tell me which period you mean, I can go on.",
    "Let me know which one you'd like and I'll go on.",
    "Before I start, a few questions:\n\n1. Which ledger?\n2. Which currency should I use?\n3. From when?",
    "Which of these should I use?\n\n- the ledger of 2024\n- the ledger of 2025\n\nOption 1 seems the cleanest.",
    "What period should I use? There are two in the log: March and April.",
    "I found two ledgers. Did you mean the one of 2024?",
    "Should I use UTC or local time?",
    "Want me to fix it here, or open an issue?",
    "Which would you like me to change?",
    "Welches Hauptbuch meinst du?",
    "¿Qué período quieres decir?",
    "Quelle période voulez-vous dire ?",
    "你指的是哪个账本\uff1f",
)
PERMISSIONS = (
    "Should I proceed?",
    "Shall I go ahead?",
    "May I delete the old ledger?",
    "Ready to commit?",
    "Does this plan look good?",
    "Is it OK to overwrite the file?",
    "Please confirm before I delete the ledger.",
    "Here is the plan.\n\n1. Read\n2. Write\n\nShall I proceed with it?",
    "Soll ich fortfahren?",
    "是否继续\uff1f",
)
OFFERS = (
    "Want me to fix these?",
    "Would you like me to commit this?",
    "Would you like a summary of it?",
    "Do you want me to open a pull request?",
    "Shall I also add a test?",
    "If you want, I can add tests.",
    "Let me know if you would like me to add more.",
    "Want me to add tests, or is this fine as it is?",
    "需要我添加测试吗\uff1f",
)
NOTHING = (
    "Done.",
    "All tests pass. Let me know if you have any questions.",
    "How can I help you today?",
    "Is there anything else?",
    "See https://example.org/?q=which",
    "The query is\n\n```sql\nselect * from t where a = ?\n```",
    "> Which ledger do you mean?\n\nThat is what the file says.",
    'The file asks "Which ledger do you mean?" in its first line.',
    "# What changed?\n\nThe file.",
    "Why did it fail? The window was wrong.",
    "Does it handle an empty list? Yes, it returns 0.",
    "I asked which ledger you meant, and used 2025.",
    "I chose UTC, because you did not say which time zone.",
    "What should you know of it? " + "It reads every line of the log and counts the errors. " * 8,
)
CLOSINGS = [
    *((text, "question") for text in QUESTIONS),
    *((text, "permission") for text in PERMISSIONS),
    *((text, "offer") for text in OFFERS),
    *((text, "none") for text in NOTHING),
]
REPORT = "I read both ledgers and counted the errors of each.\n\n- `a.log`: 3 errors\n- `b.log`: none\n\n"


def test_a_closing_asks_for_what_it_says():
    """A question, leave, more work or nothing; also below a report, and with a courtesy or code behind it."""
    for text, kind in CLOSINGS:
        around = (text, REPORT + text, f"{text}\n\nThanks!", f"{text}\n\n```sh\nls -l?\n```\n", f"{text}\r\n")
        assert {each: asking_of(each) for each in around} == dict.fromkeys(around, kind)


def test_what_is_quoted_or_long_past_asks_nothing():
    """The same words as a quotation, as code, as a heading, or above a long report."""
    for text, _ in CLOSINGS:
        quoted = "\n".join(f"> {line}" for line in text.splitlines())
        fenced = "~~~".join(text.split("```"))
        for around in (quoted, f"```\n{fenced}\n```", f"{text}\n\n" + REPORT.replace("\n", " ") * 20 + "Done."):
            assert asking_of(around) == "none", around


@pytest.mark.thorough
def test_an_imported_session_that_ends_by_asking_is_flagged(tmp_path):
    """Whoever only ever asks in prose has no questions, and an ending that asks."""
    for name, said in (("asks", "Which period do you mean?"), ("works", "Two crimes. Want me to plot them?")):
        chat = [{"role": "user", "content": "List crimes."}, {"role": "assistant", "content": said}]
        imported(
            "openai-messages",
            write(tmp_path / f"{name}.json", {"messages": chat}),
            tmp_path / "s",
            agent=name,
            reward=0.0,
        )
    assert query(tmp_path / "s", "select asks from trial_endings order by asks") == [("offer",), ("question",)]
    assert query(tmp_path / "s", "select sum(n_asking), sum(n_trials) from endings") == [(1, 2)]


def test_openings_without_an_end_are_said():
    """Only what ends is left out, and thousands that do not end cost no more time than their length."""
    for opening in ("<think>", "```text\n", "> quoted\n<thinking>\n"):
        assert asking_of(opening * 20_000 + "\n\nWhich period do you mean?") == "question"
    assert asking_of("<think>\nWhich one?\n</thinking>\nDone.\n```\nWhich one?\n```") == "none"
    assert asking_of("<think>\nWhich one?") == "question"


OF_THE_RULES = sorted(
    {
        word
        for rule in vars(prose).values()
        if isinstance(rule, re.Pattern)
        for word in re.findall(r"[^\W\d_]{2,}", re.sub(r"\\\w|\(\?\W+", " ", rule.pattern))
    }
)
"""The words that the rules of asking look for."""
REQUESTS = (
    *("could you pick one", "can you paste it", "awaiting your approval", "once you confirm", "until you approve"),
    *("bitte nenne eins", "por favor dime", "麻烦你提供", "如果需要"),
)
"""Requests without a mark that need several of these words."""


def test_what_may_not_ask_does_not(monkeypatch):
    """What is told apart at a first look, a text in SQL or a sentence here, asks nothing by all of the rules."""
    around = [
        (before, after) for before in ("", "if ", "just ") for after in ("", " which", " me which", " for your answer")
    ]
    texts = [f"{before}{word}{after}" for word in OF_THE_RULES for before, after in around]
    marked = [
        text
        for word in OF_THE_RULES
        for mark in ("**", "_")
        for text in (word[:2] + mark + word[2:], f"{mark}{word}{mark} me which")
    ]
    assert "none" not in map(asking_of, REQUESTS)
    texts += [*marked, *REQUESTS, "wa`x` for your answer", "".join(OF_THE_RULES), *(text for text, _ in CLOSINGS)]
    assert len(texts) > 2000
    with closing(empty_database()) as connection:
        register(connection)
        create_macros(connection)
        passed_over = {
            text for text in texts if connection.execute("select not may_ask(?)", [text]).fetchone() == (True,)
        }
    assert len(passed_over) > 1000
    looked_at = {text: asking_of(text) for text in texts}
    monkeypatch.setattr(prose, "_MAY_ASK", re.compile(""))
    assert {text: asking_of(text) for text in texts} == looked_at
    assert {looked_at[text] for text in passed_over} == {"none"}
