"""The product's recorder, with redaction, sealing, artifacts, and uploads to a shared store."""

from collections.abc import Callable

from lhaw_record.recorder.sealing.seal_child import start_sealing
from lhaw_record.recorder.sharing.uploader import Uploader
from lhaw_record.recorder.storage.blobs import store_blob
from lhaw_record.recorder.storage.journal import JournalFile
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.recorder import ROTATE_BYTES, Clock, Recorder, Sealing
from lhaw_record.recorder.writing.redaction import Redactor


class StoreRecorder(Recorder):
    """A recorder that removes secrets, seals its journals, keeps artifacts, and uploads to a shared store.

    Args:
        store: A store opened for writing.
        experiment_id: The experiment of all its events.
        redactor: Removes secrets from every event and artifact. None removes only known credential patterns.
        clock: Wall and monotonic time.
        rotate_bytes: A journal of at least this length is closed and sealed.
        start_sealing: Starts to seal a closed journal. A shared store uploads it instead.

    Raises:
        RecordingFailed: The first journal cannot be created.
        StoreError: The environment variable ``LHAW_RECORD_PATIENCE_S`` is not a number.
    """

    def __init__(
        self,
        store: Store,
        experiment_id: str,
        *,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
        rotate_bytes: int = ROTATE_BYTES,
        start_sealing: Callable[[Store, JournalFile], Sealing] = start_sealing,
    ) -> None:
        self._artifact_redactor = redactor or Redactor()
        super().__init__(
            store,
            experiment_id,
            redactor=self._artifact_redactor,
            clock=clock,
            rotate_bytes=rotate_bytes,
            start_sealing=start_sealing,
            upload=Uploader if store.address else None,
        )

    def keep(self, content: bytes) -> tuple[str, int]:
        """Store an artifact without its secrets (blocking), and return the SHA-256 and length of the stored bytes."""
        cleaned = self._artifact_redactor.clean_bytes(content)
        return store_blob(self.store, cleaned), len(cleaned)
