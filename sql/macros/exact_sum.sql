-- macro: exact_sum
-- inputs: one number per row
-- outputs: double, null without any number
-- equation: the sum in decimal arithmetic with 15 places
-- source: docs/metrics.md 5: every machine prints the same digits
-- notes: the order of the rows makes no difference, so nothing is sorted. A number
--     that is not finite adds nothing; 'log verify' names it.
create or replace macro exact_sum(number) as sum(
    try_cast(number as decimal(38, 15))
)::double
