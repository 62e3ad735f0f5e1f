"""Exports: what a store holds in the formats of others. docs/imports.md describes each."""

from analytics.exports.dataset_rows import dataset_rows
from analytics.exports.exported import Exported
from analytics.exports.golden_trajectories import golden_trajectories
from analytics.exports.trial_records import trial_records

EXPORTS = {"hf": dataset_rows, "trials": trial_records, "trajectories": golden_trajectories}

__all__ = ["EXPORTS", "Exported", "dataset_rows", "golden_trajectories", "trial_records"]
