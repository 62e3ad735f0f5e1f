"""invoice-matching: compare invoices with orders and receipts, list the mismatches, and prepare the payments."""
