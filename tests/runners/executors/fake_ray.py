"""As much of Ray as a pool of workers uses, in this process: actors answer as a test says."""

from types import SimpleNamespace


class RayError(Exception):
    """Base, as in ray.exceptions."""


class RayTaskError(RayError):
    """A method raised."""

    def __init__(self, cause):
        super().__init__(str(cause))
        self.cause = cause


class _Method:
    def __init__(self, function):
        self.remote = function


class _Actor:
    """One worker: ``scripts`` has what its methods do."""

    def __init__(self, scripts):
        for name in ("join", "run", "stop", "leave"):
            setattr(self, name, _Method(scripts[name]))


class FakeRay:
    """A cluster with room for every worker; ``scripts`` are taken in turn, the last one for all that follow."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, *scripts, names=()):
        self._scripts = list(scripts)
        self.killed = []
        self.util = SimpleNamespace(list_named_actors=lambda: list(names))

    def remote(self, _):
        """Make an actor class of a class."""
        return self

    def options(self, **_):
        """Take what Ray takes."""
        self.remote = self._made
        return self

    def _made(self, _):
        scripts = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        del self.remote  # the next call makes a class again
        return _Actor(scripts)

    def kill(self, actor):
        """Take note."""
        self.killed.append(actor)
