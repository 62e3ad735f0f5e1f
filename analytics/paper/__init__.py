"""Tables and figures as a paper prints them, made from a store by a small file that names them."""

from lhaw_record.analytics.paper.paper import Paper, make
from lhaw_record.analytics.paper.spec import PRESETS, PaperSpec, read_spec, spec_and_text

__all__ = ["PRESETS", "Paper", "PaperSpec", "make", "read_spec", "spec_and_text"]
