"""inventory-reorder: forecast demand from sales, subtract the stock, and order full packs for the next deliveries."""
