-- macro: known_sum
-- inputs: one number per row, and whether the row belongs to the sum
-- outputs: double
-- equation: exact_sum over the rows that belong
-- source: docs/metrics.md 8: an unknown part makes a sum unknown
-- notes: null where one of these numbers is null; 0 without any row.
create or replace macro known_sum(number, belongs) as case
    when count(*) filter (where belongs and number is null) = 0
        then coalesce(exact_sum(case when belongs then number end), 0)
end
