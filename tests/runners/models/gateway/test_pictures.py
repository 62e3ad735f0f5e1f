"""Pictures reach a model that speaks another dialect than the agent.

The requests have the shapes in which the packages anthropic 2.14, openai 3.57 and google-genai 3.6 write them.
"""

import pytest

from tests.runners.models.gateway.shapes import block, call_item, gives, messages, output_item, responses, uses
from tests.runners.models.gateway.test_litellm_upstream import PATHS, Provider, behind, post

DATA = "iVBORw0KGgr7//4="
URL = f"data:image/png;base64,{DATA}"
AWAY = "https://pictures.example/boat.png"
OF_MESSAGES = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
OF_RESPONSES = {"type": "input_image", "image_url": URL, "detail": "low"}
OF_GEMINI = {"inlineData": {"data": "iVBORw0KGgr7__4=", "mimeType": "image/png"}}
GEMINI_PATH = "v1beta/models/m:generateContent"
REQUESTS = {
    "messages": (
        PATHS["messages"],
        messages(
            {"role": "user", "content": [block("Before"), OF_MESSAGES, block("after")]},
            uses(("a", "work"), ("b", "work")),
            gives(
                ("a", [block("seen"), OF_MESSAGES]),
                ("b", [{"type": "image", "source": {"type": "url", "url": AWAY}}]),
                after=[block("Go on.")],
            ),
        ),
    ),
    "responses": (
        PATHS["responses"],
        responses(
            {"role": "user", "content": [{"type": "input_text", "text": "Before"}, OF_RESPONSES]},
            call_item("a"),
            output_item("a", [{"type": "input_text", "text": "seen"}, OF_RESPONSES]),
        ),
    ),
    "gemini": (
        GEMINI_PATH,
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Before"}, OF_GEMINI]},
                {"role": "model", "parts": [{"functionCall": {"name": "work", "args": {}}}]},
                {
                    "role": "user",
                    "parts": [
                        {"functionResponse": {"name": "work", "response": {"result": "seen"}, "parts": [OF_GEMINI]}},
                        {"fileData": {"fileUri": AWAY, "mimeType": "image/png"}},
                    ],
                },
            ]
        },
    ),
}


def text(value):
    """A part of text."""
    return {"type": "text", "text": value}


def picture(url, **fields):
    """A picture as a part of chat completions."""
    return {"type": "image_url", "image_url": {"url": url, **fields}}


async def sent(name, base, wire):
    """What a provider gets for the request of a wire, and the status that the agent gets."""
    provider = Provider({"error": {"message": "busy"}}, 400)
    async with behind(name, base, provider) as rig:
        response = await post(rig, *REQUESTS[wire])
    return provider.requests, response


@pytest.mark.parametrize("wire", REQUESTS)
async def test_pictures_reach_a_model_of_chat_completions(wire):
    """They stand in their places in a user's message; those of results, which take texts only, follow with a name."""
    (request,), _ = await sent("own", "/v1", wire)
    first, _, *results, last = request["messages"]
    detail = {"detail": "low"} if wire == "responses" else {}
    after = [text("after")] if wire == "messages" else []
    assert first == {"role": "user", "content": [text("Before"), picture(URL, **detail), *after]}
    head, name = results[0]["content"].split("\n")
    assert (head, len(name.split())) == ("seen", 2)
    assert {each["role"] for each in results} == {"tool"}
    others = {
        "messages": [text(results[-1]["content"]), picture(AWAY), text("Go on.")],
        "responses": [],
        "gemini": [picture(AWAY)],
    }
    assert last == {"role": "user", "content": [text(name), picture(URL, **detail), *others[wire]]}


@pytest.mark.parametrize("wire", ["responses", "gemini"])
async def test_pictures_reach_claude(wire):
    """Anthropic gets them as blocks of its own."""
    (request,), _ = await sent("anthropic/claude-sonnet-4-6", "", wire)
    first, _, last = request["messages"]
    assert first["content"] == [block("Before"), OF_MESSAGES]
    assert [each["type"] for each in last["content"][:3]] == ["tool_result", "text", "image"]
    assert last["content"][2] == OF_MESSAGES


async def test_no_address_is_fetched_for_an_agent():
    """Gemini takes data only. Litellm would fetch the picture from here, where the agent's sandbox has no network."""
    requests, response = await sent("gemini/gemini-2.5-flash", "", "messages")
    assert (requests, response.status_code) == ([], 400)
    assert "download is disabled" in response.json()["error"]["message"]
