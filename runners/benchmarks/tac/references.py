"""How tasks are done, for the replay models: ``TASK.json`` files in a folder of yours, each a list of calls."""

from pathlib import Path

import msgspec

from runners.errors import ExperimentError
from runners.models.replay import Reference, ReferenceCall


class _Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, str]


def read_reference(folder: Path, task_id: str) -> Reference | None:
    """Return the calls that do a task, None where the folder has none for it.

    Raises:
        ExperimentError: The file is no list of calls.
    """
    path = folder / f"{task_id}.json"
    if not path.is_file():
        return None
    try:
        calls = msgspec.json.decode(path.read_bytes(), type=list[_Call])
    except (OSError, msgspec.MsgspecError) as error:
        raise ExperimentError(
            f"key 'benchmark.references': {path} is no list of calls such as "
            f'[{{"name": "bash", "arguments": {{"command": "ls"}}}}]: {error}'
        ) from error
    return Reference(
        task_id=task_id,
        origin="own",
        calls=tuple(ReferenceCall(name=call.name, arguments=dict(call.arguments)) for call in calls),
    )
