"""What providers say about their limits: their documented headers and bodies, and what the openai SDK makes of them."""

import email.utils
import json
import time

import httpx
import pytest

from lhaw_record.runners.models.endpoints.hints import retry_after_s, retry_headers

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
    assert retry_after_s(retry_headers(headers)) == (None if judged is None else pytest.approx(judged, abs=2.0))
