"""sales-report: report the net revenue of two quarters in euros, by group and product, and write chart data."""
