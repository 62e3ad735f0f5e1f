"""The gate: the one decision whether a rewritten prompt becomes a variant, whatever wrote it."""

from lhaw_record.generators.gate.decision import Scene, problems_of
from lhaw_record.generators.gate.model_judge import UNJUDGED, Judgement, ModelJudge, judged_words, unjudged_by

__all__ = ["UNJUDGED", "Judgement", "ModelJudge", "Scene", "judged_words", "problems_of", "unjudged_by"]
