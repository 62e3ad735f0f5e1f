-- view: question_ledger
-- grain: trial_id
-- inputs: int_question_ledger
-- outputs:
--   trial_id, stream_id, benchmark, agent, variant_id, variant_digest, condition,
--   user_simulator
--   question_count bigint: questions of the attempt that counts; null if unknown
--   targeting_count, removed_count, requested_count
--   met_count bigint: removed segments given on request; null if unknown
--   volunteered_count, precision, recall, f1, reason
-- equation: precision = targeting questions / questions; recall = segments asked for /
--     removed segments; f1 = 2 * precision * recall / (precision + recall), 0 if both
--     are 0
-- source: docs/metrics.md 3, question quality
-- notes: the valid trials that could ask, except those of full_ask_user, in which
--     nothing is missing. A question targets a segment if the chosen judge says that it
--     asks for the segment, even if the answer does not give it. Precision and f1 are
--     null if there was no question, recall and f1 if nothing was removed. All three
--     are null under the simulator dump (simulator_answers_everything), if it is
--     unknown what an answer revealed (unknown_revealed), or if it is unknown whether
--     there was a question (unknown_actions). Recall is null if it is unknown what was
--     removed (unknown_segments). Volunteered segments were given and never asked for.
select *
from int_question_ledger
where condition <> 'full_ask_user'
