"""The results of a test run: passed, failed, error, skipped or absent, for every test that an instance names."""

import json
from collections.abc import Iterable, Mapping

import msgspec

from lhaw_record.runners.base.errors import GraderError
from lhaw_record.runners.base.text.fields import shown
from lhaw_record.runners.environments.benchmarks.protocol import CheckpointResult
from lhaw_record.runners.environments.benchmarks.swebench_pro.instances import Instance

PASSED = "passed"
ABSENT = "absent"


class SuiteVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The tests of an instance, grouped by status: the parser's word in lower case, or ``absent``."""

    fail_to_pass: dict[str, list[str]]
    pass_to_pass: dict[str, list[str]]

    @property
    def is_success(self) -> bool:
        """Whether every test of both lists passed."""
        return not (self.fail_to_pass.keys() | self.pass_to_pass.keys()) - {PASSED}


def parsed_statuses(content: bytes) -> dict[str, str]:
    """Return the status, in lower case, of every test that a parser found.

    A test that is listed twice counts as passed if it passed once.

    Args:
        content: The output of an instance's parser: an object with ``tests``, a list of objects with name and status.

    Raises:
        GraderError: The content has another form.
    """
    try:
        tests = json.loads(content)["tests"]
        pairs = [(test["name"], test["status"]) for test in tests]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _garbage(content, f"{type(error).__name__}: {error}") from error
    statuses: dict[str, str] = {}
    for name, status in pairs:
        if not isinstance(name, str) or not isinstance(status, str):
            raise _garbage(content, f"a test named {shown(name)} with the status {shown(status)}")
        if statuses.get(name) != PASSED:
            statuses[name] = status.lower()
    return statuses


def verdict_of(instance: Instance, statuses: Mapping[str, str]) -> SuiteVerdict:
    """Group the tests of an instance by status. Other tests are ignored."""
    return SuiteVerdict(
        fail_to_pass=_by_status(instance.fail_to_pass, statuses),
        pass_to_pass=_by_status(instance.pass_to_pass, statuses),
    )


def checkpoint_results(
    instance: Instance, statuses: Mapping[str, str], why_absent: str
) -> tuple[CheckpointResult, ...]:
    """Return one result per fail-to-pass test, in the order of the task's checkpoints. A passed test scores one point.

    Args:
        instance: The instance.
        statuses: The status of each test, from :func:`parsed_statuses`.
        why_absent: The details for a test without a status.
    """
    found = []
    for number, name in enumerate(sorted(instance.fail_to_pass), start=1):
        status = statuses.get(name)
        found.append(
            CheckpointResult(
                checkpoint_id=f"c{number}",
                score=float(status == PASSED),
                details=status if status is not None else f"{ABSENT}: {why_absent}",
            )
        )
    return tuple(found)


def _by_status(names: Iterable[str], statuses: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(statuses.get(name, ABSENT), []).append(name)
    return found


def _garbage(content: bytes, reason: str) -> GraderError:
    shown_content = content[:80].decode("utf-8", "replace")
    return GraderError(
        f"the instance's parser wrote no list of tests ({reason}); it begins with {shown_content!r}",
        kind="parser_garbage",
    )
