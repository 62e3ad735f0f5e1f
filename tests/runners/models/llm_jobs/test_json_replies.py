"""JSON in replies: what is forgiven, what is repaired, and what is never made up."""

import json

import pytest

from lhaw_record.runners.base.errors import UnusableReply
from lhaw_record.runners.models.llm_jobs.json_replies import json_object, repaired_object

FILE = {"text": "save it as report.csv", "value": "report.csv", "criticality": 1.0, "is_used": None}
ROUNDING = {"text": "with two decimals", "value": "two decimals", "criticality": 0.5, "is_used": True}
BOTH = {"segments": [FILE, ROUNDING]}
PLAIN = json.dumps(BOTH)
INDENTED = json.dumps(BOTH, indent=2)
REWRITTEN = {"prompt": 'One.\nThe "second" line.\n- item', "questions": ["Which?"], "failure_mode": "a wrong file"}


def quoting(text):
    """A reply whose text is put in without any escaping, and what it should be read as."""
    reply = f'{{"segments": [{{"text": "{text}", "value": "x", "criticality": 1.0}}]}}'
    return reply, {"segments": [{"text": text, "value": "x", "criticality": 1.0}]}


AROUND = {
    "plain": PLAIN,
    "a fence": f"```json\n{INDENTED}\n```",
    "a fence without a language": f"```\n{INDENTED}\n```",
    "prose": f"Sure, here they are:\n\n{INDENTED}\n\nTell me if you need more.",
    "braces before": f"I looked at {{the prompt}} and [the list]:\n{PLAIN}",
    "braces after": f"{PLAIN}\nNote that {{S1}} matters most.",
    "thinking aloud": f"<think>Maybe {{this}}: [a]?</think>\n{PLAIN}",
    "an empty object before": f"{{}}\n{PLAIN}",
}

NEARLY = {
    "a comma after the last field": INDENTED.replace("null\n", "null,\n"),
    "a comma after the last item": INDENTED.replace("    }\n  ]", "    },\n  ]"),
    "line comments": INDENTED.replace('"criticality": 1.0,', '"criticality": 1.0,  // it is graded'),
    "block comments": INDENTED.replace('"criticality": 1.0,', '"criticality": 1.0, /* graded */'),
    "hash comments": INDENTED.replace('"criticality": 1.0,', '"criticality": 1.0,  # graded'),
    "single quotes and Python's words": str(BOTH),
    "keys without quotes": INDENTED.replace('"segments"', "segments").replace('"value"', "value"),
    "typographic quotes": INDENTED.replace('"criticality"', "\u201ccriticality\u201d"),
    "no comma between fields": INDENTED.replace('"report.csv",', '"report.csv"'),
    "no comma between items": INDENTED.replace("    },\n", "    }\n"),
    "no end": INDENTED.rstrip("}\n ").rstrip("]").rstrip(),
    "JSON in a JSON text": json.dumps(PLAIN),
    "the list alone": json.dumps([FILE, ROUNDING]),
}


@pytest.mark.parametrize("reply", AROUND.values(), ids=AROUND)
def test_what_stands_around_is_forgiven(reply):
    """Both readers find the object in fences, prose and thoughts, and change nothing in it."""
    assert json_object(reply, "segments") == BOTH
    assert repaired_object(reply, "segments").value == BOTH


@pytest.mark.parametrize("reply", NEARLY.values(), ids=NEARLY)
def test_near_valid_json_is_repaired_where_that_is_wanted(reply):
    """The repairing reader gives what was meant; the strict one, which judges use, refuses."""
    assert repaired_object(reply, "segments", is_list=True).value == BOTH
    with pytest.raises(UnusableReply, match=r"not valid JSON|no JSON object"):
        json_object(reply, "segments")


@pytest.mark.parametrize(
    "text",
    ['the "formatted" sheet', 'the sheet "formatted"', 'the sheets "a", "b" and c', "matches \\d+", "Bob\\'s file"],
)
def test_quotes_and_escapes_inside_texts(text):
    """Quotes that were not escaped and escapes that JSON does not have are read as the characters that they are."""
    reply, wanted = quoting(text)
    wanted["segments"][0]["text"] = text.replace("\\'", "'")
    assert repaired_object(reply, "segments").value == wanted


def test_line_breaks_and_tabs_inside_texts_are_kept():
    """A long text with real line breaks instead of escapes is that text."""
    reply = json.dumps(REWRITTEN).replace("\\n", "\n")
    assert repaired_object(reply, "prompt").value == REWRITTEN
    assert json_object(reply, "prompt") == REWRITTEN


def test_a_reply_that_was_cut_off_says_where():
    """Inside an item three or more things are open, between items two: the last item of the first is not whole."""
    inside = repaired_object(INDENTED[: INDENTED.index('two decimals"') + 5], "segments")
    between = repaired_object(INDENTED[: INDENTED.index("    },") + 6], "segments")
    assert inside.value["segments"][0] == FILE
    assert inside.open_depth > 2
    assert (between.value["segments"], between.open_depth) == ([FILE], 2)
    assert repaired_object(PLAIN, "segments").open_depth == 0
    assert repaired_object(json.dumps(REWRITTEN)[:40], "prompt").open_depth > 0


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I found no segment, sorry.",
        "Use {curly} braces: segments are fine.",
        "- report.csv (goal)\n- two decimals (constraint)",
        '{"value": "report.csv"}',
        '"segments"',
        "[1, 2]",
    ],
)
def test_prose_is_no_object(reply):
    """Without an object that has the key nothing is read, and the message says what is missing."""
    for read in (json_object, repaired_object):
        with pytest.raises(UnusableReply, match="no JSON object with the key"):
            read(reply, "segments")


def test_a_list_alone_is_only_read_where_a_list_is_wanted():
    """The list inside a broken object of another kind is not taken for the object."""
    with pytest.raises(UnusableReply):
        repaired_object('[{"segment_id": "S1"}]', "prompt")


@pytest.mark.parametrize("reply", ['{"segments": ' + "[" * 3_000, '{"segments"' + ':{"a"' * 3_000, "[" * 100_000])
def test_endless_nesting_is_refused_at_once(reply):
    """A reply that opens brackets without end is refused before anything walks into it."""
    with pytest.raises(UnusableReply):
        repaired_object(reply, "segments", is_list=True)
