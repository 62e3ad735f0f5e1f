"""The peer's analyses of its log, as its documentation does them. Run by the peer environment's Python.

python -m tests.bench_peers.peer_read mean|actions|count LOG_DIRECTORY
"""

import json
import sys
from collections import Counter

from inspect_ai.analysis import EventInfo, EventTiming, ToolEventColumns, events_df, samples_df
from inspect_ai.log import list_eval_logs, read_eval_log


def mean(logs):
    """Print the mean score of each condition; only the summaries of the samples are read for it."""
    samples = samples_df(logs, quiet=True)
    samples.groupby("metadata_condition")["score_graded"].mean().to_csv(sys.stdout, header=False)


def actions(logs):
    """Print one row for each tool call, with arguments, result and times."""
    columns = EventInfo + EventTiming + ToolEventColumns
    events = events_df(logs, columns, filter=lambda event: event.event == "tool", quiet=True)
    events.to_csv(sys.stdout, index=False)


def count(logs):
    """Print how many events of each kind the transcripts hold; a check, nothing that is measured."""
    (log,) = list_eval_logs(logs)
    json.dump(Counter(event.event for sample in read_eval_log(log).samples for event in sample.events), sys.stdout)


if __name__ == "__main__":
    {"mean": mean, "actions": actions, "count": count}[sys.argv[1]](sys.argv[2])
