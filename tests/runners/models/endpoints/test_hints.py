"""What providers say about their limits: their documented headers and bodies, and what the openai SDK makes of them."""

import email.utils
import json
import time

import httpx
import pytest

from lhaw_record.runners.models.endpoints.hints import Allowance, allowances, rate_limit_headers, retry_after_s

NOW_S = 1_800_000_000.0  # 2027-01-15T08:00:00Z

# platform.openai.com/docs/guides/rate-limits: the table of headers, with its sample values
OPENAI = {
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-limit-tokens": "150000",
    "x-ratelimit-remaining-requests": "59",
    "x-ratelimit-remaining-tokens": "149984",
    "x-ratelimit-reset-requests": "1s",
    "x-ratelimit-reset-tokens": "6m0s",
}
# docs.anthropic.com/en/api/rate-limits: resets are "in RFC 3339 format", cut to seconds: half a second is added
ANTHROPIC = {
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "48",
    "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:03Z",
    "anthropic-ratelimit-input-tokens-limit": "30000",
    "anthropic-ratelimit-input-tokens-remaining": "29000",
    "anthropic-ratelimit-input-tokens-reset": "2027-01-15T03:00:02-05:00",
}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (OPENAI, [Allowance("requests", 60, 59, 1.0), Allowance("tokens", 150000, 149984, 360.0)]),
        (ANTHROPIC, [Allowance("requests", 50, 48, 3.5), Allowance("input-tokens", 30000, 29000, 2.5)]),
        # console.groq.com/docs/rate-limits: requests a day, tokens a minute
        (
            {
                "x-ratelimit-limit-requests": "14400",
                "x-ratelimit-remaining-requests": "14370",
                "x-ratelimit-reset-requests": "2m59.56s",
            },
            [Allowance("requests", 14400, 14370, 179.56)],
        ),
        # learn.microsoft.com/answers/questions/5625878: Azure's Responses API may say -1
        ({"x-ratelimit-limit-tokens": "-1", "x-ratelimit-remaining-tokens": "-1"}, []),
        ({"x-ratelimit-limit-requests": "10", "x-ratelimit-reset-requests": "soon"}, []),
        ({"x-ratelimit-limit-requests": "9", "x-ratelimit-remaining-requests": "9"}, [Allowance("requests", 9, 9)]),
        ({"x-ratelimit-limit-requests": "nan", "x-ratelimit-remaining-requests": "inf"}, []),
    ],
)
def test_documented_headers_are_read(headers, expected):
    """Each provider's own spelling of durations and instants gives the same kind of allowance."""
    found = allowances(rate_limit_headers(headers), NOW_S)
    assert [each.name for each in found] == [each.name for each in expected]
    for each, wanted in zip(found, expected, strict=True):
        assert (each.limit, each.remaining) == (wanted.limit, wanted.remaining)
        assert each.reset_s == pytest.approx(wanted.reset_s)


def test_litellm_renames_anthropics_headers_and_both_names_are_one_allowance():
    """A prefix before each header and OpenAI's names beside Anthropic's are litellm's: nothing counts twice."""
    prefixed = {f"llm_provider-{name}": value for name, value in ANTHROPIC.items()}
    doubled = {**prefixed, "x-ratelimit-limit-requests": "50", "x-ratelimit-remaining-requests": "48"}
    assert len(allowances(rate_limit_headers(doubled), NOW_S)) == 2


# google/rpc/error_details.proto in JSON, as in ai.google.dev/gemini-api/docs/troubleshooting
GEMINI = {
    "error": {
        "code": 429,
        "message": "You exceeded your current quota. Please retry in 37.2s.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}],
            },
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"},
        ],
    }
}


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        (json.dumps(GEMINI), 37.0),
        (f"litellm.RateLimitError: GeminiException - {json.dumps(GEMINI, indent=2)}", 37.0),
        (json.dumps(GEMINI).replace('"37s"', '"1.5s"'), 1.5),
        (json.dumps(GEMINI).replace("RetryInfo", "Other"), None),
    ],
)
def test_geminis_retry_info_is_found_in_the_text_of_the_error(body, seconds):
    """The delay is in the body, which litellm puts into its message; no header has it."""
    assert retry_after_s({}, body) == seconds


IN_40_S = "a date, written when the test begins"


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "7"},
        {"retry-after": "1.5"},
        {"retry-after-ms": "350"},
        {"retry-after-ms": "350", "retry-after": "9"},
        {"retry-after": IN_40_S},
        {"retry-after": "soon"},
        {},
    ],
)
def test_retry_after_is_read_as_the_openai_sdk_reads_it(headers):
    """The SDK of the provider that documents these headers agrees on each form."""
    from openai import OpenAI

    in_40_s = email.utils.formatdate(time.time() + 40, usegmt=True)
    headers = {name: in_40_s if value is IN_40_S else value for name, value in headers.items()}
    judged = OpenAI(api_key="k", base_url="http://nowhere.invalid")._parse_retry_after_header(httpx.Headers(headers))
    assert retry_after_s(rate_limit_headers(headers)) == (None if judged is None else pytest.approx(judged, abs=2.0))
