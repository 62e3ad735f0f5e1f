-- macro: without_separators
-- inputs: a text
-- outputs: varchar: the text with 1,200,000 as 1200000
-- equation: none
-- source: docs/metrics.md 6, answer_uses
-- notes: a comma between a digit and three digits is removed. Matches cannot overlap,
--     so one pass leaves every second comma of a long number.
create or replace macro without_separators(words) as regexp_replace(
    regexp_replace(words, '(\d),(\d{3})', '\1\2', 'g'), '(\d),(\d{3})', '\1\2', 'g'
)
