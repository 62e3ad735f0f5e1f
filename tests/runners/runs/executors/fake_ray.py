"""As much of Ray as a pool of workers uses, in this process: actors answer as a test says."""

from types import SimpleNamespace


class RayError(Exception):
    """Base, as in ray.exceptions."""


class RayTaskError(RayError):
    """A method raised."""

    def __init__(self, cause):
        super().__init__(str(cause))
        self.cause = cause


class RuntimeEnvSetupError(RayError):
    """What a worker runs in could not be installed."""


class _Method:
    def __init__(self, function):
        self.remote = function


class _Actor:
    """One worker: ``scripts`` has what its methods do."""

    def __init__(self, scripts):
        for name in ("join", "run", "stop", "leave"):
            setattr(self, name, _Method(scripts[name]))


class _Task:
    """What runs on a node as soon as it is asked for."""

    def __init__(self, ray):
        self._ray = ray

    def options(self, scheduling_strategy, **_):
        return SimpleNamespace(remote=lambda _, writer_id: self._ray.publish(scheduling_strategy, writer_id))


class FakeRay:
    """A cluster with room for every worker; ``scripts`` are taken in turn, the last one for all that follow.

    ``published`` is what a host does that is to publish what a lost worker left.
    """

    exceptions = SimpleNamespace(
        RayError=RayError, RayTaskError=RayTaskError, RuntimeEnvSetupError=RuntimeEnvSetupError
    )

    def __init__(self, *scripts, names=(), published=None):
        self._scripts = list(scripts)
        self.killed = []
        self.util = SimpleNamespace(
            list_named_actors=lambda: list(names),
            scheduling_strategies=SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node_id, soft: node_id),
        )
        self.asked = []
        self._published = published

    def remote(self, what):
        """Make an actor class of a class, or a task of a function."""
        return self if isinstance(what, type) else _Task(self)

    def options(self, **_):
        """Take what Ray takes."""
        self.remote = self._made
        return self

    def _made(self, _):
        scripts = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        del self.remote  # the next call makes a class again
        return _Actor(scripts)

    async def publish(self, node_id, writer_id):
        """Take note, and do what the test says."""
        self.asked.append((node_id, writer_id))
        if self._published is not None:
            await self._published()

    def kill(self, actor):
        """Take note."""
        self.killed.append(actor)
