"""The tutorial does what it says, word for word."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import needs

DOCS = Path(__file__).resolve().parents[2] / "docs"
STEP = re.compile(r"(?:^`([^`\n]+)`:\n\n)?^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def walked(page, tmp_path):
    """Write the files of a page, run its commands in order, and compare what they print with what it shows.

    Return the folder, and how many outputs it shows.
    """
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LHAW_RECORD_AGENTS": str(tmp_path / "agents"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    folder, printed, shown = tmp_path / "walk", "", 0
    folder.mkdir()
    for name, kind, text in STEP.findall((DOCS / page).read_text(encoding="utf-8")):
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        elif kind == "sh":
            command = ["bash", "-e", "-c", text]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            printed = done.stdout
        elif kind == "text":
            assert text in printed
            shown += 1
    return folder, shown


@needs("namespaces")
@pytest.mark.thorough
@pytest.mark.slow
def test_the_tutorial_leads_from_nothing_to_its_table(tmp_path):
    """Its files are written, its commands run in order, and what they print is what it shows."""
    folder, shown = walked("tutorial.md", tmp_path)
    assert shown == 3
    assert (folder / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert (folder / "paper" / "paper.tex").is_file()
