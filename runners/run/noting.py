"""Records what a person notes about attempts of trials. Experiments may run meanwhile, and no number changes."""

import os
from contextlib import ExitStack

import anyio.to_thread

from recorder.events import TrialsNoted
from recorder.storage.store import Store
from recorder.writing.redaction import Redactor, secrets_of
from runners.errors import ExperimentError
from runners.run.supplementary_run import Counts, held, recorded_run

NOTES_EXPERIMENT = "trial-notes"
"""The experiment id under which all notes of a store are recorded."""
_LONGEST_AUTHOR = 80


async def record_note(store: Store, note: TrialsNoted) -> None:
    """Record a note.

    Args:
        store: A store opened for writing.
        note: The note about at least one attempt.

    Raises:
        ExperimentError: The note has no author, or says nothing.
        StoreError: Somebody else records a note at this moment.
        RecordingFailed: The note could not be made durable.
    """
    if not 0 < len(note.author.strip()) <= _LONGEST_AUTHOR:
        raise ExperimentError(f"a note needs the name of who wrote it, of at most {_LONGEST_AUTHOR} characters")
    if not (note.note.strip() or note.is_undone):
        raise ExperimentError("the note says nothing; readers of the store will want to know what was seen")
    with ExitStack() as stack:
        await anyio.to_thread.run_sync(lambda: stack.enter_context(held(store, (NOTES_EXPERIMENT,))))
        counts = Counts(len(note.stream_ids))
        redactor = Redactor(secrets_of(os.environ))
        config = {"author": note.author}
        async with recorded_run(store, NOTES_EXPERIMENT, "note", config, counts, redactor=redactor) as stream:
            await stream.append(note)
            counts.done, counts.outcome = len(note.stream_ids), "completed"
