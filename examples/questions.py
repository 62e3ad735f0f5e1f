"""What agents asked where they failed: ``python examples/questions.py stores/demo``."""

# ruff: noqa: INP001, T201 - a script that prints

import sys

import lhaw_record

_FAILED = """
    select trials.stream_id, trials.agent, trials.variant_id, questions.question, questions.answer
    from questions
    inner join trials on questions.stream_id = trials.stream_id
    where trials.trial_state = 'valid' and not trials.is_success
    order by all
    limit 20
"""

with lhaw_record.open(sys.argv[1] if len(sys.argv) > 1 else "stores/demo") as store:
    for each in store.sql(_FAILED):
        print(f"{each['agent']} on {each['variant_id']} (lhaw-record show STORE {each['stream_id'][:12]})")
        print(f"  asked   {each['question']}\n  heard   {each['answer']}")
