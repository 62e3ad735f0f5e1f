"""What is said to the agent of a synthetic trial: the system prompt, the tools, and the words of what goes wrong."""

from lhaw_record.recorder.events.canonical_json import canonical_json

SYSTEM_PROMPT = (
    "You work on office tasks with the tools given. What counts is what you leave in the work directory. "
    "When everything is in place, call submit once."
)
NUDGE = "Go on with the task, or call submit when everything is in place."
BROKEN_ARGUMENTS = '{"path": "data/part_'
BROKEN_RESULT = "The arguments are not a JSON object. Call the tool again."
DEFERRAL = "I would rather leave that to you."
FINAL_ANSWER = "The result is in place."
CONNECTION_LOST = "the provider closed the connection"

_TOOLS = (
    ("bash", "Run a command in the work directory.", "command"),
    ("python", "Run Python in the work directory.", "code"),
    ("read_file", "Read a file.", "path"),
    ("write_file", "Write a file.", "content"),
    ("submit", "Finish the task.", "answer"),
)


def _definition(name: str, description: str, argument: str) -> dict[str, object]:
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS_JSON = canonical_json([_definition(*tool) for tool in _TOOLS]).decode()
"""The tools as ``model_called`` records them."""


def question_about(segment_id: str) -> str:
    """Return what an agent asks about a segment."""
    return f"What is meant by part {segment_id[1:]}?"
