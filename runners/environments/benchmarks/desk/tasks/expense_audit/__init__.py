"""expense-audit: join a ledger with the staff list and a policy, list the rule violations, and summarise them."""
