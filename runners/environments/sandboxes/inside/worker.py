"""One long-lived interpreter under the driver (the shell or Python) with its pipes, started at its first request."""

import os

from lhaw_record.runners.environments.sandboxes.inside.confine import DEFAULTED_SIGNALS

REQUEST_DESCRIPTOR = 197
STATUS_DESCRIPTOR = 198

# The shell reads this as its script. The command sees neither the script (its input is empty) nor the status pipe.
# It is one line: an unfinished quote in eval leaves bash unable to read a brace at the start of the next line.
_SHELL_REQUEST = b"""eval '%s' </dev/null 198>&-; { builtin printf '%%d %%d\\n' %d "$?"; } 2>/dev/null >&198
"""


class Interpreter:
    """A long-lived interpreter process.

    Args:
        argv: Absolute program path and arguments.
        environment: Its whole environment.
        preamble: Bytes that it reads before the first request.
        is_shell: If true, requests are script lines on standard input; if false, they have a length prefix and their
            own descriptor.
    """

    def __init__(self, argv: list[str], environment: dict[str, str], preamble: bytes, *, is_shell: bool) -> None:
        self._argv = argv
        self._environment = environment
        self._preamble = preamble
        self._is_shell = is_shell
        self.process_id = 0
        self.pending = b""
        self.request_number = 0
        self.request_end = self.output_end = self.status_end = -1

    def start(self) -> None:
        """Start the process in the driver's working directory, unless it is running."""
        if self.process_id:
            return
        request_read, self.request_end = os.pipe()
        self.output_end, output_write = os.pipe()
        self.status_end, status_write = os.pipe()
        for descriptor in (self.request_end, self.output_end, self.status_end):
            os.set_blocking(descriptor, False)
        try:
            self.process_id = os.posix_spawn(
                self._argv[0],
                ["bash", *self._argv[1:]] if self._is_shell else self._argv,
                self._environment,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, request_read, 0 if self._is_shell else REQUEST_DESCRIPTOR),
                    (os.POSIX_SPAWN_DUP2, output_write, 1),
                    (os.POSIX_SPAWN_DUP2, output_write, 2),
                    (os.POSIX_SPAWN_DUP2, status_write, STATUS_DESCRIPTOR),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=DEFAULTED_SIGNALS,
            )
        except OSError:
            self.forget()
            raise
        finally:
            for descriptor in (request_read, output_write, status_write):
                os.close(descriptor)
        self.pending = self._preamble

    def put_request(self, request: bytes) -> None:
        """Queue one command or piece of code for the process."""
        self.request_number += 1
        if self._is_shell:
            self.pending += _SHELL_REQUEST % (request.replace(b"'", b"'\\''"), self.request_number)
        else:
            self.pending += len(request).to_bytes(4, "big") + request

    def exit_code_in(self, status: bytes) -> bytes:
        """Return the exit code of the current request if its line is in the bytes from the status pipe.

        The agent can write to that pipe too. Lines with other numbers are ignored, so that a forged line cannot confuse
        a later request.
        """
        for line in status.splitlines():
            words = line.split()
            if len(words) == 2 and words[0] == b"%d" % self.request_number and words[1].isdigit():
                return words[1]
        return b""

    def push(self) -> None:
        """Write as much of the queue as the pipe accepts, and discard the queue if the process has closed the pipe."""
        try:
            self.pending = self.pending[os.write(self.request_end, self.pending[:65536]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.pending = b""

    def forget(self) -> None:
        """Close the pipes of a process that has ended; the next start creates a new one."""
        for descriptor in (self.request_end, self.output_end, self.status_end):
            if descriptor >= 0:
                os.close(descriptor)
        self.request_end = self.output_end = self.status_end = -1
        self.process_id = self.request_number = 0
        self.pending = b""
