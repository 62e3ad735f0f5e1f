"""What each kind of workspace change does to the files, and which changes are refused."""

import msgspec
import pytest

from lhaw_record.recorder.events.values import ChangeArgument, EnvironmentChange
from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks, environment_variants
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import apply_change
from tests.runners.environments.benchmarks.desk.test_benchmark import SETTINGS

TABLE = "id,amount\n" + "".join(f"r{number},{number}\n" for number in range(16))
BOOK = {"One": [["id"], *([number] for number in range(8))]}
VARIANTS = [(task, variant) for task in desk_tasks() for variant in environment_variants(task)]


def change(kind, **arguments):
    """A change."""
    named = tuple(ChangeArgument(name=name, value=value) for name, value in arguments.items())
    return EnvironmentChange(kind=kind, arguments=named)


def test_nothing_changes_without_a_change():
    """The same files come back."""
    files = {"a.csv": TABLE}
    assert apply_change(files, None) is files


def test_two_candidates_replace_the_named_file():
    """The content has the right name, the other candidate lacks the last eighth of the rows, other files stay."""
    files = apply_change(
        {"a.csv": TABLE, "b.md": "x"}, change("two_candidates", file="a.csv", right="r.csv", wrong="w.csv")
    )
    assert set(files) == {"b.md", "r.csv", "w.csv"}
    assert files["r.csv"] == TABLE
    assert files["w.csv"] == "".join(TABLE.splitlines(keepends=True)[:15])


def test_a_stale_copy_keeps_the_name():
    """The named workbook is older, the content has another name."""
    files = apply_change({"a.xlsx": BOOK}, change("stale_copy", file="a.xlsx", right="a_new.xlsx"))
    assert files == {"a.xlsx": {"One": [["id"], *([number] for number in range(7))]}, "a_new.xlsx": BOOK}


def test_a_renamed_column_stands_beside_another():
    """The column keeps its values under the right name; the wrong one next to it has them a row too late."""
    wanted = change("renamed_column", files="a.csv", column="amount", right="net", wrong="gross")
    assert apply_change({"a.csv": "id,amount,x\n1,10,a\n2,20,b\n"}, wanted) == {
        "a.csv": "id,net,gross,x\n1,10,20,a\n2,20,10,b\n"
    }


@pytest.mark.parametrize(
    "wanted",
    [
        change("renamed_column", files="a.csv", column="none", right="r", wrong="w"),
        change("renamed_column", files="a.xlsx", column="id", right="r", wrong="w"),
        change("stale_copy", file="none.csv", right="r"),
        change("stale_copy", file="a.csv"),
        change("earthquake"),
    ],
)
def test_an_impossible_change_is_refused(wanted):
    """An unknown kind or a missing argument, file or column is refused by name, without a retry."""
    with pytest.raises(SandboxBoundaryError, match=wanted.kind) as caught:
        apply_change({"a.csv": TABLE, "a.xlsx": BOOK}, wanted)
    assert not caught.value.is_retry_owed


def test_every_kind_has_two_variants():
    """Each kind is used twice or more."""
    kinds = [variant.environment_change.kind for _, variant in VARIANTS]
    assert {kind: kinds.count(kind) >= 2 for kind in set(kinds)} == dict.fromkeys(
        ("two_candidates", "stale_copy", "renamed_column"), True
    )


@pytest.mark.parametrize(("task", "variant"), VARIANTS, ids=[variant.variant_id for _, variant in VARIANTS])
def test_a_variant_changes_the_workspace_and_nothing_else(task, variant):
    """The prompt and the checkpoints are the task's; only the workspace differs."""
    files = task.build(task.parameters)
    assert variant.prompt == task.prompt()
    assert apply_change(files, variant.environment_change) != files
    assert {ref for segment in variant.segments for ref in segment.checkpoint_refs} <= {
        item.checkpoint_id for item in task.checkpoints
    }
    without = msgspec.structs.replace(variant, environment_change=None)
    assert without.variant_digest != variant.variant_digest


async def test_the_agent_meets_the_changed_workspace():
    """Opened with a variant the work directory is the changed one; without, it is the task's."""
    benchmark, (task, variant) = DeskBenchmark(), VARIANTS[0]
    recorded = next(each for each in benchmark.tasks() if each.task_id == task.task_id)
    listings = []
    for shown in (None, variant):
        async with benchmark.open(recorded, SETTINGS, shown) as environment:
            listings.append((await environment.call("bash", {"command": "ls *.csv"})).text.split())
    assert listings == [
        ["ledger_q3.csv", "ledger_q3_corrected.csv"],
        ["ledger_q3.csv", "ledger_q3_booked.csv", "ledger_q3_closed.csv"],
    ]
