"""The limits of a confined call and the messages between host, fork server and child."""

import msgspec


class ConfinedLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one call. Memory and processor time are the call's own, and wall time guards against a stuck host.

    ``memory_mb`` is the memory that the child may allocate beyond the code that is already loaded, enforced by
    RLIMIT_AS. ``cpu_seconds`` is enforced by RLIMIT_CPU, so a busy machine does not shorten it.
    """

    memory_mb: int = 512
    cpu_seconds: int = 20
    wall_seconds: float = 300.0
    reply_mb: int = 64


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the fork server: load modules, then fork a child with these limits."""

    modules: tuple[str, ...]
    import_paths: tuple[str, ...]
    readable: tuple[str, ...]
    limits: ConfinedLimits


class ChildEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a child ended, reported by the fork server.

    ``start_problem`` says why no child was started. ``is_import_problem`` means that the code could not be loaded.
    """

    exit_code: int = 0
    signal: int = 0
    cpu_seconds: float = 0.0
    is_over_time: bool = False
    start_problem: str = ""
    is_import_problem: bool = False


FRAME_HEADER_BYTES = 5
"""The size of a frame header: one byte for the frame's kind, then four bytes for the length of its body."""

READING, VALUE, EXCEPTION, OUT_OF_MEMORY = b"R", b"V", b"E", b"M"
