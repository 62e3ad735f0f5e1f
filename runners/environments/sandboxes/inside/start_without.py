"""Start a program without some capabilities of its container: ``python3 -c SOURCE NUMBERS PROGRAM ...``."""

import _ctypes
import os
import signal
import sys

_PR_CAPBSET_DROP = 24

if __name__ == "__main__":
    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None is this process
    for number in sys.argv[1].split(","):
        # A program of root gets what is in the bounding set.
        if _ctypes.call_function(prctl, (_PR_CAPBSET_DROP, int(number), 0, 0, 0)) != 0:
            sys.exit(126)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  an agent's program
    except OSError as error:
        sys.stderr.write(f"{sys.argv[2]}: {error.strerror}\n")
        sys.exit(127)
