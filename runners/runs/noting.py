"""Records what a person notes about attempts of trials. Experiments may run meanwhile, and no number changes."""

import os
from contextlib import ExitStack

import anyio.to_thread
import msgspec

from lhaw_record.recorder.events import NOTES_EXPERIMENT, TrialsNoted
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.redaction import Redactor, secrets_of
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.runs.supplementary_run import Counts, held, recorded_run

_LONGEST_AUTHOR = 80
_LONGEST_NOTE = 4_000


async def record_note(store: Store, note: TrialsNoted) -> None:
    """Record a note, as one line: runs of blanks and line breaks become one blank."""
    note = msgspec.structs.replace(note, author=" ".join(note.author.split()), note=" ".join(note.note.split()))
    if not 0 < len(note.author) <= _LONGEST_AUTHOR:
        raise ExperimentError(f"a note needs the name of who wrote it, of at most {_LONGEST_AUTHOR} characters")
    if not (note.note or note.is_undone):
        raise ExperimentError("the note says nothing; readers of the store will want to know what was seen")
    if len(note.note) > _LONGEST_NOTE:
        raise ExperimentError(f"the note has {len(note.note)} characters, and may have {_LONGEST_NOTE}; shorten it")
    with ExitStack() as stack:
        await anyio.to_thread.run_sync(lambda: stack.enter_context(held(store, (NOTES_EXPERIMENT,))))
        counts = Counts(len(note.stream_ids))
        redactor = Redactor(secrets_of(os.environ))
        config = {"author": note.author}
        async with recorded_run(store, NOTES_EXPERIMENT, "note", config, counts, redactor=redactor) as stream:
            await stream.append(note)
            counts.done, counts.outcome = len(note.stream_ids), "completed"
