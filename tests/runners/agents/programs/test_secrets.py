"""A program that tells all it knows: its environment, and credentials that it found, are in no file of the store."""

import base64
import json
from urllib.parse import quote

import pytest

from lhaw_record.command_line import main
from tests.recorder.writing.test_secrets import PASSWORD, PLANTED, URLS, everything, secret_part
from tests.runners.agents.programs.rigs import ended, scripted, trial_of

GIVEN = "s3cr3t of the tool/A1+é"
TELLS = """
import base64, json, os, sys, urllib.parse
given = os.environ["TOOL_PASSWORD"]
for text in (given, json.dumps(given), urllib.parse.quote(given, safe=""), base64.b64encode(given.encode()).decode()):
    print("given:", text)
    print("given:", text, file=sys.stderr)
print(open("PLANTED").read())
ask({"role": "user", "content": open("PLANTED").read() + given})
"""


@pytest.mark.thorough
async def test_nothing_that_a_program_tells_is_stored(tmp_path):
    """Standard output, errors, requests and the recorded file: searched as they are and unpacked, and in the report."""
    planted = tmp_path / "planted.txt"
    planted.write_text("\n".join([*PLANTED.values(), *URLS]))
    program = scripted(tmp_path, TELLS.replace("PLANTED", str(planted)), environment={"TOOL_PASSWORD": GIVEN})
    ended(await trial_of(tmp_path, program))
    store = tmp_path / "store"
    assert main(["log", "export", str(store), "-o", str(store / "out.jsonl")]) == 0
    assert main(["report", str(store), "-o", str(store / "report.html")]) == 0
    found = b"".join(everything(store))
    assert b"TOOL_PASSWORD" in found
    assert found.count(b"[redacted]") > len(PLANTED)
    spelled = (GIVEN, json.dumps(GIVEN)[1:-1], quote(GIVEN, safe=""), base64.b64encode(GIVEN.encode()).decode()[:-4])
    wanted = (*map(secret_part, PLANTED.values()), PASSWORD, *spelled)
    assert [secret for secret in wanted if secret.encode() in found] == []
