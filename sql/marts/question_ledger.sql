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
--     removed segments; f1 = 2 * precision * recall / (precision +
--     recall), 0 where both are 0
-- source: docs/metrics.md 3, question quality
-- notes: every valid trial that could ask, except under full_ask_user, where nothing is
--     missing. A question targets a segment if the chosen judge says that it asks for
--     that segment, even if it is not given. Precision and f1 are null if nobody asked,
--     recall and f1 if nothing was removed. Under the simulator dump all three are null
--     (simulator_answers_everything), as they are if it is unknown what an answer
--     revealed (unknown_revealed) or whether anything was asked (unknown_actions).
--     Recall is null if it is unknown what was removed (unknown_segments). Volunteered
--     segments were given and never asked for.
select *
from int_question_ledger
where condition <> 'full_ask_user'
