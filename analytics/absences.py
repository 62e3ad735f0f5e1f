"""What a table cannot say: why it has no rows, which conditions it lacks, which dimensions nobody defined."""

from collections.abc import Sequence
from typing import Any

from recorder.values import DIMENSIONS


def absences(needs: str, conditions: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return a note for each thing that a reader would look for in a table and not find.

    Args:
        needs: What a store must hold for the table to have rows.
        conditions: Those that the table is about.
        rows: Its rows.
    """
    if not rows:
        return [f"no rows: this store has no {needs}"]
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row.get("benchmark", "all"), set()).add(row.get("condition", ""))
    notes = []
    for benchmark, present in found.items():
        missing = [condition for condition in conditions if condition not in present]
        if missing and benchmark != "all":
            notes.append(f"nothing of {benchmark} here under {', '.join(missing)}, and no gain or test that needs it")
    unknown = sorted({str(row["dimension"]) for row in rows if "dimension" in row} - {"all", *DIMENSIONS})
    if unknown:
        notes.append(
            f"dimensions that are none of {', '.join(DIMENSIONS)}, as the variants name them: {', '.join(unknown)}"
        )
    return notes
