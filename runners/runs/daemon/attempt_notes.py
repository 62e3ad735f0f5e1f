"""The notes about attempts that the daemon takes from people who read its pages."""

import anyio.to_thread

from lhaw_record.recorder.errors import RecordingFailed, StoreInUse
from lhaw_record.recorder.events import TrialsNoted, TrialStarted
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.runs.daemon.daemon import Daemon
from lhaw_record.runners.runs.daemon.errors import DaemonRefusal
from lhaw_record.runners.runs.daemon.messages import AttemptNote
from lhaw_record.runners.runs.noting import record_note


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
