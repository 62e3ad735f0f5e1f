"""Sealing journals as Parquet segments, and merging small segments into larger ones."""
