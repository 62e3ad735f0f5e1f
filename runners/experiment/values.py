"""Values of the experiment file that models and the gateway use: prices, rules about threads, what is kept."""

import re
from typing import Literal

import msgspec

WireMode = Literal["digest", "full"]
"""Whether the bodies of requests and replies are kept, or only their digests."""


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of a model, in US dollars per million tokens.

    What is read from a cache or written to it costs as much as other input unless it has its own price.
    """

    input_usd_per_million_tokens: float
    output_usd_per_million_tokens: float
    cached_input_usd_per_million_tokens: float | None = None
    cache_write_usd_per_million_tokens: float | None = None


class ThreadRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[threads]`` of an entry.

    ``main`` is a regular expression. It is searched in the system texts and the first user message of a request, and
    the requests in which it is found are those of the main thread, all others are not. ``side`` is another one: the
    requests in whose last message it is found are side calls, such as summaries. ``thread`` is the name of a
    header whose value names the thread; the value of the first request that offers tools, or else of the first, is the
    main thread's. With ``step = "request"`` each request of a thread says that the reply before it was carried out,
    whether the request shows it or not. ``sub_agents`` says whether their tool calls are actions of the trial.
    """

    main: str = ""
    side: str = ""
    thread: str = ""
    step: Literal["history", "request"] = "history"
    sub_agents: Literal["apart", "counted"] = "apart"

    def problem(self) -> str | None:
        """Return what is wrong with the rules, or None."""
        for pattern in (self.main, self.side):
            try:
                re.compile(pattern)
            except re.error as error:
                return f"{pattern!r} is not a regular expression: {error}"
        return None
