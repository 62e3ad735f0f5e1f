"""Tables in every format and in files: nothing breaks a cell, nothing is a command, files appear whole."""

import io
import json
import re
import shutil
import subprocess

import msgspec
import pytest

from lhaw_record.analytics.cli.table_output import print_list, print_tables
from lhaw_record.analytics.errors import BadParameter, UnknownName
from lhaw_record.analytics.tables.render import to_latex, to_markdown
from lhaw_record.analytics.tables.tables import TABLES, Table, table
from lhaw_record.command_line import main
from lhaw_record.recorder.storage.creation import create_store

AWKWARD = r"a_b _c_ 50% \cmd{x} $1 #2 ~3 ^4 <b> <1 [x](y) [0.1, 0.2] `q` | *s* & &amp; -0.5 " + '"…"\nnew'


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The directory of a store without events."""
    return create_store(tmp_path_factory.mktemp("formats") / "store").root


def awkward(connection):
    """A table in which every text is awkward."""
    one = table(connection, "overall")
    rows = tuple({**row, "agent": AWKWARD, "reason": AWKWARD, "value": None} for row in one.rows[:2])
    return msgspec.structs.replace(one, title=AWKWARD, rows=rows, notes=(AWKWARD,))


def test_markdown_keeps_cells_apart_and_shows_texts_as_they_are(connection):
    """Every row has the cells of the head; only what would be markup has a backslash before it."""
    lines = to_markdown(awkward(connection)).splitlines()
    bars = [len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("| ")]
    assert len(bars) == 4
    assert len(set(bars)) == 1
    text = to_markdown(awkward(connection))
    for kept in ("a_b", "<1 ", "[0.1, 0.2]", "50%", " & ", "-0.5"):
        assert kept in text
    for escaped in (r"\_c\_", r"\<b>", r"[x\](y)", r"\`q\`", r"\|", r"\*s\*", r"\&amp;", r"\\cmd"):
        assert escaped in text


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_markdown_without_a_needless_backslash(connection, name):
    """Names of measures, intervals and notes need none."""
    text = to_markdown(table(connection, name))
    assert "\\" not in text
    assert text.startswith(f"## {name}: ")
    has_share = re.search(r"\| (pass_at_1|pass_hat_k) \|", text)
    assert not has_share or ", in fractions of 1" in text.splitlines()[0]
    assert ("percentage points (pp)" in text.splitlines()[0]) == bool(re.search(r"\| \w+_pp(_\w+)? \|", text))


def test_latex_has_no_command_from_a_text(connection):
    """Outside the commands that we write, no character has a meaning; braces balance; a row begins with no bracket."""
    text = to_latex(awkward(connection))
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    own = (
        r"\\(begin|end|caption|label|noindent|footnotesize|par|toprule|midrule|endhead|bottomrule)\b|\\label\{tab:\w+\}"
    )
    left = re.sub(r"\{longtable\}\{l+\}|\{longtable\}|" + own, "", re.sub(r"\\label\{[^}]*\}", "", body))
    left = re.sub(r"\\text\w+\{\}|\\ldots\{\}|\\[&%$#_{}]|\\\\|\$-\$", "", left)
    assert re.findall(r"[\\$#%^~<>|\"`]", left) == []
    assert left.count("{") == left.count("}")
    assert not re.search(r"\\\\\n\s*[\[*]", body)
    assert "new" in text.split("0.1, 0.2")[1].splitlines()[0], "a line break in a text ends no line"
    assert "$-$0.5" in text


if shutil.which("pdflatex"):  # never skipped: where it is missing, the test above is what there is

    def test_latex_compiles(connection, tmp_path):
        """The tables compile with the packages that the function names."""
        tables = "\n".join(
            to_latex(each) for each in (awkward(connection), *(table(connection, name) for name in TABLES))
        )
        packages = r"\usepackage[T1]{fontenc}\usepackage{textcomp,booktabs,longtable}"
        page = rf"\documentclass{{article}}{packages}\begin{{document}}{tables}\end{{document}}"
        (tmp_path / "page.tex").write_text(page, encoding="utf-8")
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
        assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0


@pytest.mark.thorough
def test_all_tables_go_into_files(store, tmp_path, capsys):
    """--output writes every table in every format, says the paths, and leaves nothing half written."""
    out = tmp_path / "deep" / "folder"
    assert main(["tables", str(store), "--all", "--output", str(out)]) == 0
    wanted = {out / f"{name}.{ending}" for name in TABLES for ending in ("csv", "json", "md", "tex")}
    assert set(out.iterdir()) == wanted
    assert {*capsys.readouterr().out.split()} == {str(path) for path in wanted}
    for name in TABLES:
        assert list(json.loads((out / f"{name}.json").read_text())) == [name]


@pytest.mark.thorough
def test_shorthands_set_parameters(store, capsys):
    """--draws and --permutations are --set by another name, checked as such."""
    assert main(["tables", str(store), "overall", "--draws", "123", "--permutations", "456"]) == 0
    assert "123 draws" in capsys.readouterr().out
    assert main(["tables", str(store), "overall", "--draws", "5"]) == 1
    assert "draws = 5 is out of range" in capsys.readouterr().err


@pytest.mark.thorough
def test_no_names_and_all_are_the_same(store):
    """Without names every table is printed, each once; formats for several tables hold them all."""
    for form in ("table", "json", "markdown", "latex"):
        out = io.StringIO()
        assert print_tables(store, [], settings=[], form=form, out=out) == 0
        text = out.getvalue()
        assert all(name.replace("_", r"\_") in text or name in text for name in TABLES)
    assert text.count(r"\begin{longtable}") == len(TABLES)


@pytest.mark.thorough
def test_wrong_wishes_are_explained(store, tmp_path, capsys):
    """Two ways to name tables, a list in Markdown, a file in the way of the folder: each has a sentence of its own."""
    assert main(["tables", str(store), "overall", "--all"]) == 1
    assert "leave out the NAMEs or --all" in capsys.readouterr().err
    with pytest.raises(BadParameter, match="the list can be printed as table, csv, json"):
        print_list("latex", io.StringIO())
    with pytest.raises(UnknownName, match="'overal'"):
        print_tables(store, ["overal"], settings=[], form="markdown", out=io.StringIO())
    (tmp_path / "taken").write_text("", encoding="utf-8")
    assert main(["tables", str(store), "--output", str(tmp_path / "taken")]) == 1
    assert "a file is in the way of a folder" in capsys.readouterr().err


def test_a_table_without_value_column_has_its_columns():
    """Markdown shows every column of a table that is no list of estimates; yes and no for what is true or not."""
    one = Table(
        name="t",
        title="T",
        keys=("key",),
        columns=("key", "is_so", "x"),
        rows=({"key": "k", "is_so": True, "x": None},),
        notes=(),
    )
    assert "| k | yes | - |" in to_markdown(one)
