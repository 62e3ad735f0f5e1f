"""What can go wrong with a store.

RecorderError
├── StoreError          the directory is no store, belongs to a newer version, or cannot be written to
│   └── StoreInUse      another run holds the experiment
├── RecordingFailed     the journal could not be written (disk full, I/O error): the run must stop
└── DamagedStore        bytes on disk are not what was written: file, place and what is lost
"""


class RecorderError(Exception):
    """Base of the errors of this layer; every message names the file and the next step."""


class StoreError(RecorderError):
    """The directory cannot be used as a store."""


class StoreInUse(StoreError):
    """Another process runs the experiment; the message says who."""


class RecordingFailed(RecorderError):
    """An event could not be made durable. Nothing that was acknowledged before is lost."""


class DamagedStore(RecorderError):
    """Stored bytes fail their checksum or do not decode."""
