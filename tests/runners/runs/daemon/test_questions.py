"""Questions that wait for a person: on the daemon's page and in its API, with what the prompt says and no more."""

import re

import anyio
import pytest

from tests.cli.program import query
from tests.runners.runs.daemon.running import daemon_at, submission, until

PERSON = '\n[user_simulator]\nkind = "person"\n'
VALUE = "2025-06-03 03:50:00"


@pytest.mark.thorough
async def test_a_person_answers_on_the_page(tmp_path):
    """The page shows the prompt as it was sent, the full one only in what a person opens; one answer counts."""
    async with daemon_at(tmp_path / "store") as (daemon, client):
        body = submission(tmp_path, conditions=("ask_user",), more=PERSON)
        await client.post("/api/experiments", json=body)
        while not (found := (await client.get("/api/questions")).json()["questions"]):  # noqa: ASYNC110
            await anyio.sleep(0.05)
        (asked,) = found
        listed = (await client.get("/questions")).text
        assert asked["question"] in listed
        page = (await client.get(f"/questions/{asked['question_id']}")).text
        shown = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
        assert VALUE in page
        assert VALUE not in shown
        assert "during the incident" in shown
        address = f"/api/questions/{asked['question_id']}"
        assert (await client.post(address, json={"text": " ", "by": "anna"})).status_code == 422
        answer = {"text": f"From {VALUE} to 2025-06-03 05:20:00 UTC", "by": "anna", "saw_values": True}
        assert (await client.post(address, json=answer)).status_code == 200
        assert (await client.post(address, json=answer)).status_code == 409
        await until(daemon, "small", lambda each: each.state == "finished")
        assert (await client.get(f"/questions/{asked['question_id']}")).status_code == 404
    told = query(
        tmp_path / "store", "select answered_by, saw_values, answer_seconds > 0, response_state from questions"
    )
    assert told == [("anna", True, True, "answered")]
    assert query(tmp_path / "store", "select is_success from trials") == [(True,)]
