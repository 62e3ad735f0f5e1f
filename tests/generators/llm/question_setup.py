"""An extractor and a rewriter behind a local server: what tests of both need to ask it."""

import json
from collections.abc import Sequence
from typing import Any

from lhaw_record.generators.llm import LlmExtractor, LlmRewriter
from lhaw_record.generators.protocol import Extraction, Grounding, Removal, Rewriting
from lhaw_record.recorder.events.values import Segment
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.models.call_outcomes import RetryPolicy
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.litellm_model import LitellmModel
from tests.support.generation_model import HandlerModel, source_of

MODEL = "local-model"
PARAMETERS = {"temperature": 0, "max_tokens": 4096}
PRICE = Price(input_usd_per_million_tokens=10.0, output_usd_per_million_tokens=10.0)
PROMPT = "Read sales.csv and write the totals to out.csv, rounded to two decimals.\r\n"
OUT = Segment(
    segment_id="S1", value="out.csv", dimension="goal", subdimension="target", criticality=1.0, guessability=0.0
)


class Replies(HandlerModel):
    """Gives some replies in turn, then the last of them for ever."""

    def __init__(self, *replies: str) -> None:
        super().__init__(lambda _: replies[min(len(self.bodies), len(replies)) - 1], MODEL)

    def said(self, number: int) -> list[str]:
        """The roles and texts of a request's messages."""
        return [f"{message['role']}: {message['content']}" for message in self.bodies[number]["messages"]]


def segments_reply(*values: str, **changes: Any) -> str:
    """A reply with a right segment for each value; changes apply to all of them."""
    common = {"dimension": "goal", "subdimension": "target", "criticality": 1, "guessability": 0, **changes}
    return json.dumps({"segments": [{"value": value, **common} for value in values]})


def caller_of(url: str, recording: Any, role: Any = "extractor", thread: str = "thread", **changes: Any) -> ModelCaller:
    """The recorded model behind an address."""
    settings = {
        "model": LitellmModel(MODEL, api_base=url, price=PRICE),
        "recording": recording,
        "role": role,
        "thread_id": thread,
        "parameters": PARAMETERS,
        "retry": RetryPolicy(max_attempts=3, first_delay_s=0.01),
        "request_timeout_s": 20.0,
        **changes,
    }
    return ModelCaller(**settings)


async def extracted(caller: ModelCaller, prompt: str = PROMPT) -> Extraction:
    """The segments of a prompt."""
    return await LlmExtractor(MODEL, PARAMETERS).extract(source_of(prompt), Grounding(), caller)


async def rewritten(
    caller: ModelCaller, problems: Sequence[str] = (), prompt: str = PROMPT, segments: Sequence[Segment] = (OUT,)
) -> Rewriting:
    """A prompt without some segments."""
    removal = Removal(segments=tuple(segments), severity="delete")
    return await LlmRewriter(MODEL, PARAMETERS).rewrite(source_of(prompt), removal, caller, problems)
