"""Small stores for the recorder's tests."""

import anyio

from lhaw_record.recorder.events import ActionFinished, ActionStarted, TrialFailed
from lhaw_record.recorder.writing.store_recorder import StoreRecorder


def started(index):
    """One small event."""
    return ActionStarted(action_index=index, kind="tool", name="bash", arguments_json="{}", model_call_id="c.1")


def finished(index, text="done"):
    """Its other half."""
    return ActionFinished(action_index=index, is_error=False, result=text, duration_ms=1.0)


def failed():
    """A closing event."""
    return TrialFailed(boundary="model", error_kind="timeout", message="no reply", is_retry_owed=True)


async def record_streams(recorder: StoreRecorder, count: int, actions: int, acknowledged=None, *, prefix="s"):
    """Append some streams at once, each with its actions and a closing event."""

    async def one(number):
        stream = recorder.stream(f"{prefix}{number}", trial_id=f"t{number}", attempt=1)
        for index in range(actions):
            for event in (started(index), finished(index, f"result {number}.{index} " * 5)):
                await stream.append(event)
                if acknowledged is not None:
                    acknowledged(stream.stream_id)
        await stream.append(failed())

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)
