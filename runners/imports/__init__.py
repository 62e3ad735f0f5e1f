"""Imports: results and datasets of other programs as events of a store. docs/imports.md describes every format."""

from runners.imports.facts import ImportFailed, Options
from runners.imports.formats import FORMATS
from runners.imports.importing import Format, Import, run_import

__all__ = ["FORMATS", "Format", "Import", "ImportFailed", "Options", "run_import"]
