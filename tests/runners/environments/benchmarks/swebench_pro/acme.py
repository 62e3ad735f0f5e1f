"""A small repository with a history, in an image that keeps the contract of the published ones, and its instances.

The repository has a Python package and a Perl module. Commit 2 is the base of an instance in Python that commit 3
solves; commit 3 is the base of one in Perl that commit 4 solves. As in the published images the repository is at /app,
the commits that hold the solutions are in it, and beside the tracked files it has an ignored one and one that is not.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.docker import docker, engine_address

USER = "lhaw-record"
PYTHON, PERL, MANY = "python", "perl", "many"
MANY_FAIL_TO_PASS = [f"suite {number:04} | wächst [{number}] \"'" for number in range(4347)]
MANY_PASS_TO_PASS = [f"old::{number}" for number in range(3509)]
_GIT_IMAGE = "lhaw-record/git:1"
_TOOLS = Path(__file__).parents[4] / "support" / "docker-git-image"
_MONEY = '''\
"""Amounts of money as texts."""


def cents(text):
    """Return a text as cents."""
    whole, _, part = text.partition(".")
    return int(whole) * 100 + int((part + "00")[:2])
'''
_MONEY_SOLVED = '''\
"""Amounts of money as texts."""


def cents(text):
    """Return a text as cents; thousands may be apart, and it may be below zero."""
    sign = -1 if text.startswith("-") else 1
    whole, _, part = text.lstrip("-").replace(",", "").partition(".")
    if len(part) > 2:
        raise ValueError(f"{text} has parts of a cent")
    return sign * (int(whole) * 100 + int((part + "00")[:2]))
'''
_MONEY_TESTS = """\
import unittest

from ledger.money import cents


class CentsTest(unittest.TestCase):
    def test_whole(self):
        self.assertEqual(cents("12"), 1200)

    def test_part(self):
        self.assertEqual(cents("1.5"), 150)
"""
_MONEY_NEW_TESTS = """
    def test_below_zero(self):
        self.assertEqual(cents("-0.25"), -25)

    def test_thousands(self):
        self.assertEqual(cents("1,000"), 100000)

    def test_parts_of_a_cent(self):
        with self.assertRaises(ValueError):
            cents("0.125")
"""
_CSV = """\
package Ledger::Csv;
use strict;
use warnings;

sub fields {
    my ($line) = @_;
    return split /,/, $line;
}

1;
"""
_CSV_SOLVED = """\
package Ledger::Csv;
use strict;
use warnings;

sub fields {
    my ($line) = @_;
    my @found;
    while ($line =~ /\\G(?:"((?:[^"]|"")*)"|([^,]*))(,|$)/g) {
        my $field = defined $1 ? $1 : $2;
        $field =~ s/""/"/g;
        push @found, $field;
        last if $3 eq "";
    }
    return @found;
}

1;
"""
_CSV_TESTS = """\
use strict;
use warnings;
use Test::More;
use lib "lib";
use Ledger::Csv;

is_deeply([Ledger::Csv::fields("a,b")], ["a", "b"], "two fields");
is_deeply([Ledger::Csv::fields("a")], ["a"], "one field");
"""
_CSV_NEW_TESTS = '''\
is_deeply([Ledger::Csv::fields('"a,b",c')], ["a,b", "c"], "a comma | in quotes");
is_deeply([Ledger::Csv::fields('"say ""x"""')], ['say "x"'], "quotes in quotes");
is_deeply([Ledger::Csv::fields("a,,")], ["a", "", ""], "empty fields");
'''
_END = "done_testing;\n"
_COMMITS = (
    {
        "README.md": "# Ledger\n",
        ".gitignore": "__pycache__/\nlocal.cfg\n",
        "ledger/__init__.py": "",
        "ledger/money.py": _MONEY,
        "lib/Ledger/Csv.pm": _CSV,
        "tests/__init__.py": "",
        "tests/test_money.py": _MONEY_TESTS,
        "t/csv.t": _CSV_TESTS + _END,
    },
    {"README.md": "# Ledger\n\nMoney and tables.\n"},
    {"ledger/money.py": _MONEY_SOLVED, "tests/test_money.py": _MONEY_TESTS + _MONEY_NEW_TESTS},
    {"lib/Ledger/Csv.pm": _CSV_SOLVED, "t/csv.t": _CSV_TESTS + _CSV_NEW_TESTS + _END},
)
_SETUP = """\
export HOME=/root GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@acme GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@acme
mkdir -p /app && cd /app && git init -q -b main && git remote add origin https://acme.invalid/ledger
for number in 1 2 3 4; do
  cp -r /commits/$number/. . && git add -A
  GIT_AUTHOR_DATE="2026-01-0${number}T00:00:00Z" GIT_COMMITTER_DATE="2026-01-0${number}T00:00:00Z" \\
    git commit -q -m "Change $number"
done
git tag v1 HEAD~1 && git update-ref refs/remotes/origin/main HEAD && git checkout -q HEAD~2
echo built > build.log && echo here > local.cfg
rm -rf /commits
"""
RUN_SCRIPTS = {
    PYTHON: """\
IFS=',' read -r -a files <<< "$1"
python -m unittest -v "${files[@]}"
""",
    PERL: """\
IFS=',' read -r -a files <<< "$1"
prove -v "${files[@]}"
""",
    MANY: """\
python - <<'PROGRAM'
from ledger.money import cents
try:
    is_solved = cents("1,000") == 100000
except ValueError:
    is_solved = False
for number in range(4347):
    print("PASS" if is_solved else "FAIL", f"suite {number:04} | wächst [{number}] \\"'", sep="\\t")
for number in range(3509):
    print("PASS", f"old::{number}", sep="\\t")
PROGRAM
""",
}
_WRITE = """\
json.dump({"tests": [{"name": name, "status": status} for name, status in found]}, open(sys.argv[3], "w"))
"""
PARSERS = {
    PYTHON: r"""
import json, re, sys
words = {"ok": "PASSED", "FAIL": "FAILED", "ERROR": "ERROR", "skipped": "SKIPPED"}
log = open(sys.argv[2]).read()
found = [(name, words[word]) for name, word in re.findall(r"^\w+ \(([\w.]+)\) \.\.\. (\w+)", log, re.M)]
"""
    + _WRITE,
    PERL: r"""
import json, re, sys
log = open(sys.argv[1]).read()
lines = re.findall(r"^(not )?ok \d+ - (.*)", log, re.M)
found = [(f"t/csv.t | {name}", "FAILED" if no else "PASSED") for no, name in lines]
"""
    + _WRITE,
    MANY: r"""
import json, sys
words = {"PASS": "PASSED", "FAIL": "FAILED"}
lines = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
found = [(name, words[word]) for word, name in lines]
"""
    + _WRITE,
}


class Acme:
    """The instances in a folder: ``instances.jsonl`` and ``run_scripts``, as published.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = {
            row["repo_language"]: row for row in map(json.loads, (folder / "instances.jsonl").read_text().splitlines())
        }

    def options(self, **changes):
        """Return the keys of ``[benchmark]``."""
        files = {"instances": str(self.folder / "instances.jsonl"), "scripts": str(self.folder / "run_scripts")}
        return {**files, "user": USER, "test_network": "none", **changes}  # engines of tests may have no other

    def script(self, language: str, name: str) -> str:
        """Return the text of an instance's script."""
        return (self.folder / "run_scripts" / self.rows[language]["instance_id"] / name).read_text()

    def with_script(self, folder: Path, language: str, name: str, text: str) -> "Acme":
        """Return the same instances in another folder, with another script for one of them."""
        shutil.copytree(self.folder, folder)
        (folder / "run_scripts" / self.rows[language]["instance_id"] / name).write_text(text)
        return Acme(folder)


def task_of(benchmark, language):
    """Return the task of the instance in a language."""
    order = (PYTHON, PERL, MANY)
    return benchmark.tasks()[order.index(language)]


def make(folder: Path) -> None:
    """Write the instances, after making their images if the engine lacks them."""
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    image = f"lhaw-record/acme:{recipe}"
    if docker("image", "inspect", image).returncode != 0:
        _make_image(image)
    asked = docker("run", "--rm", image, "/bin/sh", "-c", _ASK)
    assert asked.returncode == 0, asked.stderr
    commits, *patches = asked.stdout.split("=====\n")
    _, first, second, third = commits.split()
    python = _row(PYTHON, first, second, "tests/test_money.py", patches[0])
    perl = _row(PERL, second, third, "t/csv.t", patches[1])
    many = {**_row(MANY, first, second, "tests/test_money.py", patches[0]), "instance_id": f"{_id(first)}-v{'0' * 40}"}
    rows = [
        {**python, "fail_to_pass": repr(_python_tests("below_zero", "parts_of_a_cent", "thousands")),
         "pass_to_pass": json.dumps(_python_tests("part", "whole"))},
        {**perl, "fail_to_pass": json.dumps([f"t/csv.t | {name}" for name in
         ("quotes in quotes", "a comma | in quotes", "empty fields")]),
         "pass_to_pass": ["t/csv.t | two fields", "t/csv.t | one field"]},
        {**many, "fail_to_pass": MANY_FAIL_TO_PASS, "pass_to_pass": MANY_PASS_TO_PASS},
    ]  # fmt: skip
    (folder / "instances.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for row in rows:
        language = row["repo_language"]
        own = folder / "run_scripts" / row["instance_id"]
        own.mkdir(parents=True)
        (own / "run_script.sh").write_text(RUN_SCRIPTS[language])
        (own / "parser.py").write_text(PARSERS[language])
        tag = f"{USER}/sweap-images:acme.ledger-{row['instance_id'].removeprefix('instance_').removesuffix('-vnan')}"
        assert docker("tag", image, tag).returncode == 0


_ASK = """\
cd /app && git rev-list --reverse main && echo ===== && git diff main~2 main~1 -- . ':!tests' && echo ===== &&
git diff main~1 main -- . ':!t'
"""


def _id(commit):
    return f"instance_acme__ledger-{commit}"


def _row(language, base, solution, test_file, patch):
    """Return a record with every column but those of the lists of tests."""
    return {
        "repo": "acme/ledger",
        "instance_id": f"{_id(base)}-vnan",
        "base_commit": base,
        "problem_statement": f"The {language} part of the ledger refuses what it should read.",
        "requirements": "- It reads amounts below zero, and fields in quotes.",
        "interface": "No new interfaces are introduced",
        "repo_language": language,
        "before_repo_set_cmd": f"git reset --hard {base}\ngit clean -fd \ngit checkout {base} \n"
        f"git checkout {solution} -- {test_file}",
        "selected_test_files_to_run": json.dumps([test_file]),
        "patch": patch,
    }


def _python_tests(*names):
    return [f"tests.test_money.CentsTest.test_{name}" for name in names]


def _make_image(image):
    environment = {**os.environ, **({"DOCKER_HOST": engine_address()} if engine_address() else {})}
    done = subprocess.run([_TOOLS], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.strip() == _GIT_IMAGE, done.stderr
    with tempfile.TemporaryDirectory() as folder:
        for number, files in enumerate(_COMMITS, start=1):
            for name, content in files.items():
                path = Path(folder, str(number), name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
        container = docker("create", _GIT_IMAGE, "/bin/sh", "-euc", _SETUP).stdout.strip()
        try:
            assert docker("cp", folder, f"{container}:/commits").returncode == 0
            started = docker("start", "--attach", container)
            assert started.returncode == 0, started.stderr
            assert docker("commit", "--change", 'CMD ["/bin/bash"]', container, image).returncode == 0
        finally:
            docker("rm", "--force", container)
