"""Format ``mcp-atlas-references``: rows of the MCP-Atlas dataset, each with the trajectory of a reference solution.

Nobody has scored these trajectories. Without ``--reward`` they are missing data.
"""

from collections.abc import Mapping

import msgspec

from lhaw_record.runners.base.text.fields import as_list, as_text, literal_or_json
from lhaw_record.runners.environments.benchmarks.mcp_atlas.rows import parse_claims
from lhaw_record.runners.environments.grading.grade import CheckpointResult
from lhaw_record.runners.imports.bare_trajectory import GRADER, without_reward
from lhaw_record.runners.imports.foreign_trial import (
    UNKNOWN,
    Finish,
    ForeignTrial,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    converted,
)
from lhaw_record.runners.imports.formats.mcp_atlas_scores import column_name, task_of
from lhaw_record.runners.imports.source_files import csv_rows
from lhaw_record.runners.imports.trajectory import trajectory_events, turns_of

AGENT = "reference"
_NEEDED = ("task", "prompt", "gtfa_claims", "reference_trajectory")


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return one trial for each row. A reward is the score of every claim."""
    rows, columns = csv_rows(source, column_name)
    missing = [column for column in _NEEDED if column not in columns]
    if missing:
        name = missing[0].removeprefix("reference_").upper()
        raise ImportFailed(f"{source.label} has no column {name}, so it has no rows of MCP-Atlas with trajectories")
    locations = [(f"{source.label}, row {number}", row) for number, row in enumerate(rows, 1)]
    return converted("rows", locations, lambda each: _trial(*each, options))


def _trial(location: str, row: Mapping[str, str], options: Options) -> ForeignTrial:
    """Convert one row to a trial."""
    claims = parse_claims(row["gtfa_claims"])
    if not claims:
        raise ValueError("a row without claims")
    given = as_list(literal_or_json(row["reference_trajectory"], "TRAJECTORY"), "TRAJECTORY")
    turns = turns_of([{"role": "user", "content": row["prompt"]}, *given])
    answer = turns[-1].reply.content or None
    unscored = without_reward(None)
    scored = None
    if options.reward is not None:
        results = [CheckpointResult(checkpoint_id=f"c{n}", score=options.reward) for n in range(1, len(claims) + 1)]
        scored = Finish(is_success=options.reward >= 1, results=tuple(results), final_answer=answer)
    trial = ForeignTrial(
        location=location,
        task=task_of(as_text(row["task"], "TASK"), row["prompt"], claims),
        condition="full",
        agent=options.agent or AGENT,
        model=UNKNOWN,
        grader=GRADER,
        trial_index=options.trial_index,
        trajectory=trajectory_events(turns, model=UNKNOWN, condition="full"),
        end=unscored,
        end_before=unscored,
    )
    return msgspec.structs.replace(trial, end=scored) if scored else trial
