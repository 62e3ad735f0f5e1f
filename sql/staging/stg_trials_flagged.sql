-- view: stg_trials_flagged
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt
--   flag varchar: no_main_thread, actions_uncounted, injection_lost or
--       asking_unanswered
--   detail varchar: how it was noticed
-- equation: none; renames the fields of one event type
-- source: recorder/events, event trial_flagged
-- notes: one row is one doubt about a gateway's recording of a trial.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    trial_flagged.flag,
    trial_flagged.detail
from events
where type = 'trial_flagged'
