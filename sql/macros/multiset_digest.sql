-- macro: multiset_digest
-- inputs: one value per row
-- outputs: hugeint, null without rows
-- equation: the sum of the values' 64-bit hashes
-- source: none; a checksum that says where a check has to look closely
-- notes: the order of the rows makes no difference. Equal multisets have equal digests;
--     different ones have them once in about 2^64 times.
create or replace macro multiset_digest(member) as sum(hash(member))
