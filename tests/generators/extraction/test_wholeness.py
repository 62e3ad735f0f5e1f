"""Half of something is no segment."""

import pytest

from tests.generators.extraction.extraction_cases import found


@pytest.mark.parametrize(
    ("prompt", "half"),
    [
        ("Give me the price for the Sunday-Saturday week.", "Sunday"),
        ("How many 2-room flats are there?", "2"),
        ("Save each as plan_[first_name]_[last_name].pdf.", "first_name"),
        ("While waiting for Ada Berg's reply, count the rows.", "Ada"),
        ("Show the price in each line (e.g. 12.34).", "12.34"),
        ("Log the time ($time_local) of each request.", "time_local"),
        ("Send mail of a user to `/var/spool/<username>`.", "<username>"),
        ("Call the model weights_{step}.bin after each epoch.", "weights"),
        ('Accept data in the form {"text": "your words"}.', "your words"),
        ("Listen on every interface (0.0.0.0).", "0.0.0.0"),
        ("Build the tool (http://tools.example/) from source.", "http://tools.example/"),
        ("Compile it with GnuFOO 3 as before.", "3"),
        ("Write `run.py` so that I can start it with `python run.py`.", "python run.py"),
        ("Name it `a.txt`. I will check it with `check-it a.txt`.", "check-it a.txt"),
        ("Plot the waves with plotlib\n2. Save the picture.", "plotlib\n2"),
        ("Write each date in the ISO 8601 form.", "8601"),
        ("The file must have exactly two keys:\n- a\n- b", "two"),
        ("Start `serve --port 9 --dir 'x y'` before you read a.csv.", "x y"),
        ('Every bill is in a <div class="bill one"> of the page.', "bill one"),
        ("The table contains 48 rows. Sort it by name.", "48"),
        ("Train with max_steps=50.", "max_steps"),
        ("Unpack the tar.gz file.", "tar.gz"),
        ("Write a report. foolib 1.2.3 has been installed.", "1.2.3"),
        ("The accuracy is near 20%. Make it better.", "20%"),
        ("<!-- id 26aa5c67-86b8-4aaa-aaaa-aee00cb2a7ae --> Sort the list.", "26aa5c67"),
        ("Diagnose why run.py fails. It joins two lists of 70 names by `old_key`.", "70 names"),
        ("Diagnose why run.py fails. It joins two lists of 70 names by `old_key`.", "old_key"),
    ],
)
def test_what_cannot_be_made_whole_is_left_out(prompt, half):
    """A part of a word, of a pattern or of a name, and an example are no segments."""
    assert half not in found(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "Build the tool.\n\nYou can test your build with `tool -b -r 50`.\n",
        'Set up the server.\n\nThe system will be tested by:\n1. Creating a file with "some words"\n2. Pushing it\n',
        'Set up the server so that this works\n    git clone user@server:/git/server\n    cat "some file.txt"\n',
        'The answer is an object:\n\n{\n  "score": 0.75\n}\n',
        'Find the query.\n\nimport table\n\nrows = table.read("x y")\ntop = rows.head(7)\nprint(top)\n',
    ],
)
def test_how_the_result_is_checked_is_no_request(prompt):
    """Commands to come, tests to come and keys of a schema hold no segment."""
    assert not found(prompt)
