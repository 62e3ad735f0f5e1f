"""Gives benchmarks and environments that inherit nothing of ours the defaults of optional members."""

from typing import Any, TypeVar, cast

T = TypeVar("T")


class WithDefaults:
    """Wraps a benchmark or environment that does not inherit from ours, and adds our defaults for missing members.

    Args:
        given: The benchmark or environment.
        kind: ``Benchmark`` or ``Environment``.
    """

    def __init__(self, given: object, kind: type) -> None:
        self.given = given
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "given" not in self.__dict__:
            raise AttributeError(name)
        if hasattr(self.given, name):
            return getattr(self.given, name)
        default = getattr(self._kind, name)
        return default.__get__(self) if callable(default) else default


def with_defaults(given: T, kind: type[Any]) -> T:
    """Return a benchmark or an environment that has every optional member."""
    return given if isinstance(given, kind) else cast("T", WithDefaults(given, kind))
