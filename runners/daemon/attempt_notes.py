"""The notes about attempts that the daemon takes from people who read its pages."""

import anyio.to_thread

from recorder.errors import RecordingFailed, StoreInUse
from recorder.events import TrialsNoted, TrialStarted
from recorder.reading.reader import read_envelopes
from recorder.storage.store import Store
from runners.daemon.daemon import Daemon
from runners.daemon.errors import DaemonRefusal
from runners.daemon.messages import AttemptNote
from runners.errors import ExperimentError
from runners.run.noting import record_note


async def take(daemon: Daemon, stream_id: str, given: AttemptNote) -> AttemptNote:
    """Record a note about an attempt, and return it."""
    store = daemon.store
    if not await anyio.to_thread.run_sync(is_attempt, store, stream_id):
        raise DaemonRefusal(f"there is no attempt {stream_id!r}", kind="not_found", status=404)
    note = TrialsNoted(
        stream_ids=(stream_id,), author=given.author, note=given.note, cause=given.cause, is_undone=given.is_undone
    )
    try:
        await record_note(store, note)
    except ExperimentError as error:
        raise DaemonRefusal(str(error), kind="bad_note", status=422) from error
    except StoreInUse as error:
        message = f"somebody else records a note at this moment; try again ({error})"
        raise DaemonRefusal(message, kind="in_use", status=409) from error
    except RecordingFailed as error:
        message = f"the note is not recorded: {error}; make room, then note it again"
        raise DaemonRefusal(message, kind="not_recorded", status=507) from error
    return given


def is_attempt(store: Store, stream_id: str) -> bool:
    """Return whether there is a stream of this id, and it is an attempt of a trial."""
    return any(isinstance(each.event, TrialStarted) for each in read_envelopes(store.root, stream_id))
