"""Export the trials and variants of a store in published formats, which docs/exports.md describes."""

from collections.abc import Callable

from lhaw_record.analytics.exports.atif_documents import atif_documents, harbor_jobs
from lhaw_record.analytics.exports.database_file import database_file
from lhaw_record.analytics.exports.dataset_rows import dataset_folder, dataset_rows
from lhaw_record.analytics.exports.exported import ExportDocument, ExportFolder, tasks_left_out
from lhaw_record.analytics.exports.harbor_tasks import harbor_folders, write_harbor_folders
from lhaw_record.analytics.exports.inspect_logs import inspect_logs
from lhaw_record.analytics.exports.training_rows import training_rows
from lhaw_record.analytics.exports.trial_records import golden_trajectories, trial_records

EXPORTS: dict[str, Callable[..., ExportDocument | ExportFolder]] = {
    "hf": dataset_folder,
    "trials": trial_records,
    "trajectories": golden_trajectories,
    "atif": atif_documents,
    "harbor-job": harbor_jobs,
    "training": training_rows,
    "inspect": inspect_logs,
}

__all__ = [
    "EXPORTS",
    "ExportDocument",
    "ExportFolder",
    "atif_documents",
    "database_file",
    "dataset_folder",
    "dataset_rows",
    "golden_trajectories",
    "harbor_folders",
    "harbor_jobs",
    "inspect_logs",
    "tasks_left_out",
    "training_rows",
    "trial_records",
    "write_harbor_folders",
]
