"""Agents that share only the workspace with the desk's: other tools, other wrapping of results, or no tools at all."""

import json
import shlex

from lhaw_record.runners.base.conversation.messages import Message, ToolCall, ToolDefinition

ENDING = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def schema(required=(), **properties):
    """A JSON schema of an object with these types."""
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(required),
    }


def tool(name, required=(), description="", **properties):
    """A tool with arguments of these types."""
    return ToolDefinition(name=name, description=description, input_schema=schema(required, **properties))


class Agent:
    """One agent with one task: the tools it offers, and how it writes texts and results into its history.

    Args:
        prompt: The task.
        run: Runs a command in a new shell and returns what it prints.
        reply: Answers questions; None where the agent cannot ask.
    """

    tools = ()
    ask_name = "mcp__user__ask_user"
    system = "You are a helpful agent. Think, reflect, and write a plan before you work. A thought never hurts."

    def __init__(self, prompt, run, reply=None):
        self.run = run
        self.reply = reply
        self.answer = None
        self.questions = []
        self.offered = (*self.tools, *((tool(self.ask_name, ("question",), question="string"),) if reply else ()))
        self.messages = [
            Message(role="system", content=self.system),
            Message(role="user", content="<environment_context>\n<cwd>/work/notes.md</cwd>\n</environment_context>"),
            Message(role="user", content=self.opening(prompt)),
        ]

    def opening(self, prompt):
        """Return the task as the agent words it."""
        return prompt

    async def take(self, turn: Message):
        """Do what a turn of the model says."""
        self.messages.append(turn)
        if not turn.tool_calls:
            self.answer = turn.content
        for call in turn.tool_calls:
            result = await self.result(call, json.loads(call.arguments_json))
            self.messages.append(Message(role="tool", content=result, tool_call_id=call.call_id))

    async def result(self, call: ToolCall, arguments):
        """Execute a call."""
        if call.name == self.ask_name:
            self.questions.append(arguments["question"])
            return self.reply(arguments["question"])
        assert call.name in {each.name for each in self.tools}, call.name
        return await self.shell(arguments)

    async def shell(self, arguments):
        """Execute a command."""
        raise NotImplementedError


class ExecAgent(Agent):
    """A shell that requires further arguments and wraps its output in a report; a reply without calls ends the work."""

    tools = (
        tool("write_stdin", ("session_id",), session_id="integer", command="string"),
        tool("exec_command", ("cmd", "is_background", "why"), cmd="string", is_background="boolean", why="string"),
    )

    async def shell(self, arguments):
        """Execute a command."""
        assert arguments["is_background"] is False
        assert isinstance(arguments["why"], str)
        return f"Wall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n{await self.run(arguments['cmd'])}"


class WordsAgent(Agent):
    """A shell that takes a list of words, results in JSON, a tool to finish, and an ask_user of another name."""

    ask_name = "consult"
    tools = (tool("shell", ("command",), command="array"), tool("attempt_completion", ("result",), result="string"))

    async def shell(self, arguments):
        """Execute a command, or end."""
        if "result" in arguments:
            self.answer = arguments["result"]
            return "Thank you."
        assert arguments["command"][:2] == ["bash", "-lc"]
        output = await self.run(shlex.join(arguments["command"]).partition(" -lc ")[2].join(("eval ", "")))
        return json.dumps({"output": output, "metadata": {"exit_code": 0}})


class TextAgent(Agent):
    """No tools: one block of code in each reply is run, and a certain command ends the work. It cannot ask."""

    system = f"Reply with one command:\n\n```mswea_bash_command\nls\n```\n\nWhen you are done: `{ENDING}`."

    async def take(self, turn: Message):
        """Do what a turn of the model says."""
        self.messages.append(turn)
        _, _, rest = turn.content.partition("```mswea_bash_command\n")
        command, end, after = rest.partition("\n```")
        assert (end, after) == ("\n```", ""), turn.content
        output = await self.run(command)
        if output.startswith("COMPLETE_TASK"):
            self.answer = output.partition("\n")[2]
        text = f"<returncode>0</returncode>\n<output>\n{output}</output>"
        self.messages.append(Message(role="user", content=text))


class QuotingAgent(Agent):
    """Calls become a Python list in a text, and all their results one text, as in smolagents."""

    ask_name = "ask_user"
    tools = (tool("shell", ("command",), command="string"), tool("final_answer", ("answer",), answer="string"))

    async def take(self, turn: Message):
        """Do what a turn of the model says."""
        calls = [(call, json.loads(call.arguments_json)) for call in turn.tool_calls]
        quoted = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
            for call, arguments in calls
        ]
        results = "\n".join([await self.result(call, arguments) for call, arguments in calls])
        self.messages.append(Message(role="assistant", content=f"{turn.content}\nCalling tools:\n{quoted}".strip()))
        self.messages.append(Message(role="user", content=f"Observation:\n{results}"))

    async def shell(self, arguments):
        """Execute a command, or end."""
        if "answer" in arguments:
            self.answer = arguments["answer"]
            return self.answer
        return await self.run(arguments["command"])


class DistrustingAgent(Agent):
    """A tag around everything that a tool returns, as in Gemini CLI."""

    ask_name = "mcp_user_consult"
    tools = (tool("run_shell_command", ("command",), command="string"),)

    async def result(self, call: ToolCall, arguments):
        """Execute a call."""
        return f"<untrusted_context>\n{await super().result(call, arguments)}\n</untrusted_context>"

    async def shell(self, arguments):
        """Execute a command."""
        return f"Output: {await self.run(arguments['command'])}\nProcess Group PGID: 25"


AGENTS = {
    "exec": ExecAgent,
    "words": WordsAgent,
    "text": TextAgent,
    "quoting": QuotingAgent,
    "distrusting": DistrustingAgent,
}
