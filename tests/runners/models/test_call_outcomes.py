"""A tool call in the text of a reply is recognised in the notations that models are trained on, and prose is not."""

import pytest

from lhaw_record.runners.base.conversation.messages import Message, ToolCall, ToolDefinition
from lhaw_record.runners.models.call_outcomes import call_in_text

TOOLS = [
    ToolDefinition(name=name, description="", input_schema={"type": "object", "properties": {}})
    for name in ("bash", "get_weather", "submit")
]

# The notations as docs.vllm.ai/en/latest/features/tool_calling and the models' own cards show them.
CALLS = {
    "tool_call tag": [
        '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>',  # Hermes, Qwen 2.5 and 3
        "I look.\n<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",  # GLM 4.5
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{}",  # Kimi K2
    ],
    "function tag": [
        '<function=bash>{"command": "ls"}</function>',  # Llama 3.1
        '<function_calls>\n<invoke name="bash">\n<parameter name="command">ls</parameter>\n</invoke>',
    ],
    "python tag": ['<|python_tag|>{"name": "bash", "parameters": {"command": "ls"}}'],  # Llama 3.1 and 3.2
    "TOOL_CALLS token": ['[TOOL_CALLS] [{"name": "bash", "arguments": {"command": "ls"}}]'],  # Mistral
    "deepseek tokens": ["<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>bash"],  # noqa: RUF001
    "harmony channel": ['<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{"command": "ls"}'],
    "json": [
        '{"name": "bash", "parameters": {"command": "ls"}}',  # Llama 3.1
        'First I look around.\n```json\n{"name": "bash", "arguments": {"command": "ls"}}\n```\nThen I go on.',
        '[{"name": "get_weather", "arguments": {"city": "Rome"}}]',
        '{"type": "function", "function": {"name": "bash", "arguments": "{}"}}',
        '{"action": "bash", "input": {"command": "ls"}}',
    ],
    "python": [
        '[get_weather(city="Rome", unit="c"), bash(command="ls")]',  # Llama 4, Gemma 3
        '```tool_code\nbash(command="ls \\d")\n```',  # Gemma
        'submit(answer="done")',
    ],
}
PROSE = [
    "",
    "I would call bash now.",
    "The function bash(command) lists files, and get_weather asks for the weather.",
    '{"name": "Rome", "arguments": {"population": 2}}',
    '{"name": "bash"}',
    '```python\nprint("hello")\nbash(command="ls")\n```',
    '```json\n{"result": {"name": "bash"}}\n```',
    'Some text {"name": "bash", "arguments": {}} in a line.',
    "(((((" * 5_000,
    "[" * 50_000,
    "{" * 50_000,
    'print("done")',
]


@pytest.mark.parametrize(("notation", "text"), [(name, text) for name, texts in CALLS.items() for text in texts])
def test_each_notation_is_recognised(notation, text):
    """A reply without tool calls whose text has one is marked with its notation."""
    assert call_in_text(Message(role="assistant", content=text), TOOLS) == notation


@pytest.mark.parametrize("text", PROSE)
def test_prose_and_data_are_no_calls(text):
    """Text about tools, other objects and garbage have no mark, and garbage costs no time."""
    assert call_in_text(Message(role="assistant", content=text), TOOLS) is None


def test_nothing_is_left_where_tools_were_called_or_not_offered():
    """A reply with a tool call, and one to a request without tools, have no mark."""
    text = CALLS["json"][0]
    call = ToolCall(call_id="a", name="bash", arguments_json="{}")
    assert call_in_text(Message(role="assistant", content=text, tool_calls=(call,)), TOOLS) is None
    assert call_in_text(Message(role="assistant", content=text), ()) is None
