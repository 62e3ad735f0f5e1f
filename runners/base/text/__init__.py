"""Text processing: normalization for comparison, and reading fields of foreign JSON."""
