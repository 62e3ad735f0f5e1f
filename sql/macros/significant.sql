-- macro: significant
-- inputs: one number
-- outputs: double
-- equation: the number with 6 significant digits
-- source: none; how p-values are printed
-- notes: null stays null. Small p-values keep digits that six decimal places would cut.
create or replace macro significant(number) as format('{:.6g}', number)::double
