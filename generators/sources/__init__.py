"""Where tasks come from: bundled, published, or a user's own. ``reading`` has what a source gives."""

from generators.sources.options import SOURCES, add_source_arguments, source_of

__all__ = ["SOURCES", "add_source_arguments", "source_of"]
