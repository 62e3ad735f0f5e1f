"""The grader of the test task. A file mood.txt of the agent, or the task's name, makes it as bad as a grader can be."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

OWNCLOUD = "http://{}:8092".format(os.getenv("SERVER_HOSTNAME") or "the-agent-company.com")


QUESTION = {"type": "text", "text": "Does it?"}
ASKED = {"ask": [QUESTION], "show": [QUESTION, {"type": "image_url", "image_url": {"url": "data:"}}]}


def text_of(path):
    """Return a file's text; empty where there is none."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def fetched(path):
    """Return what the store has; empty where it has nothing."""
    try:
        return urllib.request.urlopen(OWNCLOUD + path).read().decode()
    except OSError:
        return ""


def asked_model(content):
    """Return what the model says, asked as OpenAI's client does; empty where it cannot be asked, as published ones."""
    body = {"model": os.environ["LITELLM_MODEL"], "messages": [{"role": "user", "content": content}]}
    headers = {"Authorization": "Bearer " + os.environ["LITELLM_API_KEY"], "Content-Type": "application/json"}
    url = os.environ["LITELLM_BASE_URL"] + "/chat/completions"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as reply:
            return json.load(reply)["choices"][0]["message"]["content"]
    except OSError as error:
        sys.stderr.write(f"ERROR:root:Failed to evaluate message: {error}\n")
        return ""


def meet_limit(mood):
    """Meet a limit of the machine, or ask a model, and go on as published evaluators do."""
    if mood in ASKED:
        sys.stdout.write(f"it says {asked_model(ASKED[mood])}\n")
    if mood == "memory":
        subprocess.run([sys.executable, "-c", "x = [bytes(1 << 20) for _ in range(100000)]"], check=False)
    if mood == "starve":
        _ = [bytes(1 << 20) for _ in range(100000)]
    started = []
    while mood == "processes":
        try:
            started.append(subprocess.Popen(["sleep", "3600"]))
        except OSError:
            mood = ""
    for each in started:
        each.kill()
        each.wait()
    if mood == "disk":
        try:
            Path("/dev/full").write_text("x")
        except OSError as error:
            sys.stderr.write(f"ERROR:root:Error in grade_checkpoint1: {error}\n")


def grade_checkpoints(trajectory):
    """Return the points of every checkpoint, all of them where the last one is reached."""
    mood = text_of("/workspace/mood.txt") or " ".join(sys.argv).partition("bm-bad-")[2].partition(".")[0]
    if mood == "crash":
        sys.exit("the grader has a bad day")
    if mood == "hang":
        time.sleep(3600)
    if mood == "garbage":
        return "Here is the result: {"
    if mood == "error":
        return {"error": "no model", "checkpoints": [], "final_score": {"total": 4, "result": 0}}
    if mood == "other":
        return {"checkpoints": [{"total": 5, "result": 5}], "final_score": {"total": 5, "result": 5}}
    if mood == "nothing":
        os._exit(0)
    meet_limit(mood)
    if mood == "quote":
        sys.stderr.write(trajectory)
    if mood == "eat":
        fetched("/eat")
    if mood == "model":
        sys.stderr.write("ERROR:root:Failed to evaluate: litellm.AuthenticationError: no key\n")  # and goes on
    seen = OWNCLOUD + "/files/front-desk/" in trajectory  # the address that agents know, as published evaluators do
    counted = text_of("/workspace/count.txt") == "3"
    uploaded = 2 if fetched("/puts") == '["/files/count.txt"]' and fetched("/files/count.txt").strip() == "3" else 0
    results = [(1, int(seen)), (1, counted), (2, uploaded)]
    reached = 4 if uploaded == 2 else sum(int(result) for _, result in results)
    sys.stdout.write("graded with {}\n".format(os.environ.get("LITELLM_MODEL", "no model")))
    sys.stdout.write(os.environ.get("LITELLM_API_KEY", "without a key"))
    return {
        "checkpoints": [{"total": total, "result": result} for total, result in results],
        "final_score": {"total": 4, "result": reached},
    }
