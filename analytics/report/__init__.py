"""Write the report: one self-contained HTML page about a store."""

from lhaw_record.analytics.report.build import Page, build, page_of

__all__ = ["Page", "build", "page_of"]
