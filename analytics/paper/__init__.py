"""Tables and figures in the form that papers print, made from a store and a small specification file."""

from lhaw_record.analytics.paper.paper import Paper, make
from lhaw_record.analytics.paper.spec import PRESETS, PaperSpec, read_spec, spec_and_text

__all__ = ["PRESETS", "Paper", "PaperSpec", "make", "read_spec", "spec_and_text"]
