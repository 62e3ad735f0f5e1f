"""Imports results and datasets of other programs into a store as events. docs/imports.md describes every format."""

from lhaw_record.runners.imports.foreign_trial import ImportFailed, Options
from lhaw_record.runners.imports.formats import FORMATS, Format, installed_format
from lhaw_record.runners.imports.pipeline import Import, run_import

__all__ = ["FORMATS", "Format", "Import", "ImportFailed", "Options", "installed_format", "run_import"]
