"""Write the report: one self-contained HTML page about a store."""

from lhaw_record.analytics.report.build import Page, attempt_data, attempt_page, build, page_of

__all__ = ["Page", "attempt_data", "attempt_page", "build", "page_of"]
