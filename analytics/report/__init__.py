"""The report: one self-contained page about a store."""

from analytics.report.build import Page, build, page_of

__all__ = ["Page", "build", "page_of"]
