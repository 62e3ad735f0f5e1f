"""Format ``atif``: trajectories in Harbor's interchange format, 1.0 to 1.8, with continuations and sub-agents.

A run may consist of several documents; they form one trial, named after the document that no other one refers to. ATIF
records what an agent did, not what its model was sent, so the request of a turn is the steps before it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isclose
from pathlib import PurePosixPath
from typing import Any

from lhaw_record.recorder.events import Reasoning, Usage
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.conversation.messages import Message, ToolCall
from lhaw_record.runners.imports.bare_trajectory import BareTrajectory, parsed_trajectory
from lhaw_record.runners.imports.foreign_trial import (
    UNKNOWN,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    counted,
    left_out,
    read_each,
    stated_usage,
)
from lhaw_record.runners.imports.formats.atif_document import (
    AtifDocument,
    AtifResult,
    AtifStep,
    Content,
    FinalMetrics,
    SubAgentRef,
    read_document,
)
from lhaw_record.runners.imports.source_files import decode_json
from lhaw_record.runners.imports.trajectory import CallResult, ForeignTurn, result_messages

FORMAT = "atif"
_IN_CIRCLE = "documents refer to each other in a circle, so none of them begins the run; remove the reference back"


class Documents:
    """The documents of an import by file; resolves references between them."""

    def __init__(self, by_label: Mapping[str, AtifDocument]) -> None:
        self._by_label = by_label

    def runs(self) -> Iterator[str]:
        """Yield the label of each document that begins a run, because no other document refers to it."""
        inner = {label for other in self._by_label for label in self._references(other)}
        yield from (label for label in self._by_label if label not in inner)

    def reached(self) -> frozenset[str]:
        """Return the labels of the documents that begin a run, and of all documents reachable from them."""
        found: set[str] = set()
        ahead = list(self.runs())
        while ahead:
            label = ahead.pop()
            if label not in found:
                found.add(label)
                ahead += self._references(label)
        return frozenset(found)

    def run(self, label: str) -> tuple[BareTrajectory, list[str]]:
        """Return the run that begins with a document, and remarks about it."""
        chain = [label]
        while (reference := self._by_label[chain[-1]].continued_trajectory_ref) is not None:
            following = self._resolved(chain[-1], reference)
            if following is None:
                raise ValueError(
                    f"the trajectory continues in {reference}, which is not there; import the folder that has it"
                )
            if following in chain:
                raise ValueError(f"the trajectory continues in {reference}, which is already a part of the trajectory")
            chain.append(following)
        labels = {id(each): name for name, document in self._by_label.items() for each in _with_embedded(document)}
        used = {id(self._by_label[each]) for each in chain}

        def find(document: AtifDocument, reference: SubAgentRef) -> AtifDocument | None:
            own = {each.trajectory_id: each for each in document.subagent_trajectories or ()}
            named = self._resolved(labels[id(document)], reference.trajectory_path)
            found = own.get(reference.trajectory_id) or (self._by_label[named] if named else None)
            if found is None or id(found) in used:  # documents may refer to each other in a circle
                return None
            used.add(id(found))
            return found

        documents = [self._by_label[each] for each in chain]
        found, remarks = trajectory_of(documents, find)
        if len(chain) > 1:
            remarks.append(f"continued in {', '.join(chain[1:])}")
        return found, remarks

    def _references(self, label: str) -> Iterator[str]:
        """Yield the label of every other document that a document refers to."""
        document = self._by_label[label]
        paths = [document.continued_trajectory_ref]
        for each in _with_embedded(document):
            results = (result for step in each.steps for result in step.results)
            paths += [ref.trajectory_path for result in results for ref in result.subagent_trajectory_ref or ()]
        for path in paths:
            named = self._resolved(label, path)
            if named is not None and named != label:
                yield named

    def _resolved(self, label: str, reference: str | None) -> str | None:
        """Return the document that a reference points to: the file in the same folder, also if both were renamed alike.

        Files that are kept outside their folders often have a prefix: ``x.trajectory.json`` refers to
        ``trajectory.cont-1.json``, which is then ``x.trajectory.cont-1.json``.
        """
        if reference is None:
            return None
        own = PurePosixPath(label)
        prefix, word, _ = own.name.rpartition("trajectory.")
        candidates = [str(own.parent / reference)]
        if word:
            candidates.append(str(own.parent / f"{prefix}{PurePosixPath(reference).name}"))
        return next((each for each in candidates if each in self._by_label), None)


def parse_all(sources: Mapping[str, SourceFile], options: Options, known: KnownRecords) -> dict[str, ParsedFile]:
    """Return a trial for each run that the documents describe."""
    found: dict[str, ParsedFile] = {}
    read = read_each(sources, document_of, found)
    documents = Documents(read)
    begins, reached = set(documents.runs()), documents.reached()
    for label in read:
        found[label] = (
            _parsed(label, documents, options, known)
            if label in begins
            else ParsedFile(remarks=("belongs to the run of another file",))
            if label in reached
            else left_out("trajectories", _IN_CIRCLE)
        )
    return found


def _parsed(label: str, documents: Documents, options: Options, known: KnownRecords) -> ParsedFile:
    try:
        found, remarks = documents.run(label)
    except ValueError as error:
        return left_out("trajectories", str(error))
    return parsed_trajectory(label, found, options, known, format_name=FORMAT, remarks=remarks)


def document_of(source: SourceFile) -> AtifDocument:
    """Return the document of a file."""
    try:
        return read_document(decode_json(source))
    except ValueError as error:
        raise ImportFailed(f"{source.label} is not a valid ATIF document: {error}") from error


def _with_embedded(document: AtifDocument) -> Iterator[AtifDocument]:
    yield document
    for each in document.subagent_trajectories or ():
        yield from _with_embedded(each)


FindSubAgent = Callable[[AtifDocument, SubAgentRef], AtifDocument | None]
"""Finds the document that a reference in a document points to, None if it does not exist."""


def trajectory_of(documents: Sequence[AtifDocument], find: FindSubAgent) -> tuple[BareTrajectory, list[str]]:
    """Return the run of a sequence of documents, each continuing the one before, and remarks about it."""
    first, last = documents[0], documents[-1]
    remarks: Counter[str] = Counter()
    model = first.agent.model_name or next((step.model_name for step in first.steps if step.model_name), None)
    turns = [turn for document in documents for turn in _turns(document, find, remarks, None)]
    replies = [step for step in last.steps if step.source == "agent" and not step.is_copied_context]
    found = BareTrajectory(
        prompt=next((text_of(step.message) for step in first.steps if step.source == "user"), ""),
        agent=first.agent.name,
        model=model or UNKNOWN,
        program=f"{first.agent.name} {first.agent.version}",
        run_name=first.session_id or first.trajectory_id,
        turns=turns,
        final_answer=text_of(replies[-1].message) if replies else None,
        started_at=next((step.timestamp for step in first.steps if step.timestamp), None),
        stated=_totals([each.final_metrics for each in documents], turns),
    )
    return found, counted(remarks)


def _totals(metrics: Sequence[FinalMetrics | None], turns: Sequence[ForeignTurn]) -> Usage:
    """Return the totals of a run: its last document's, which has those before it and the sub-agents.

    If what they add up to says so, the totals are each document's own, or without the sub-agents'.
    """
    given = [_usage(each, "total_") for each in reversed(metrics)]

    def total(name: str) -> Any:
        stated = [getattr(each, name) for each in given]
        parts = [(getattr(turn.usage, name) or 0, turn.sub_agent is not None) for turn in turns]
        readings = [each for each in (stated[0], None if None in stated else sum(stated)) if each is not None]
        readings += [each + sum(part for part, is_other in parts if is_other) for each in readings]
        return next((each for each in readings if isclose(each, sum(part for part, _ in parts))), stated[0])

    return Usage(**{name: total(name) for name in Usage.__struct_fields__})


def _usage(metrics: object, prefix: str = "") -> Usage:
    names = ("cost_usd", "prompt_tokens", "completion_tokens", "cached_tokens")
    paid, sent, received, cached = (getattr(metrics, prefix + name, None) for name in names)
    return stated_usage(paid, input_tokens=sent, output_tokens=received, cached_input_tokens=cached)


def text_of(content: Content | None) -> str:
    """Return the text of a message or result, with a placeholder for each image or sound."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(f"[{part.type}: {part.source.path}]" if part.source else part.text or "" for part in content)


def _turns(
    document: AtifDocument, find: FindSubAgent, remarks: Counter[str], sub_agent: str | None
) -> Iterator[ForeignTurn]:
    """Yield the turns of a document, each step's sub-agents' turns after it. Copied steps are only context."""
    messages: list[Message] = []
    tools = document.agent.tool_definitions
    tools_json = canonical_json(tools).decode() if tools else None
    for step in document.steps:
        if step.source != "agent":
            messages.append(Message(role=step.source, content=text_of(step.message)))
            messages += [Message(role="user", content=text) for text in _texts(step.results)]
        else:
            turn, after = _turn(step, tuple(messages), sub_agent, tools_json)
            messages += after
            if not step.is_copied_context:
                tools_json = None
                yield turn
        if step.is_copied_context:
            continue
        if not isinstance(step.message, str) or any(isinstance(each.content, list) for each in step.results):
            remarks["images and sounds are named in the text, but not kept"] += 1
        for reference in (each for result in step.results for each in result.subagent_trajectory_ref or ()):
            called = find(document, reference)
            if called is None:
                name = reference.trajectory_id or reference.trajectory_path
                remarks[f"the trajectory of the sub-agent {name} is not there"] += 1
            else:
                yield from _turns(called, find, remarks, called.trajectory_id or reference.trajectory_path)
    for each in document.subagent_trajectories or ():  # no step says when these ran
        if (called := find(document, SubAgentRef(trajectory_id=each.trajectory_id))) is not None:
            yield from _turns(called, find, remarks, called.trajectory_id)


def _turn(
    step: AtifStep, request: tuple[Message, ...], sub_agent: str | None, tools_json: str | None
) -> tuple[ForeignTurn, list[Message]]:
    """Return the turn of an agent's step, and the messages that show it in later requests.

    A result without a call id belongs to the step's only call, if there is exactly one of each. Otherwise it is a
    message. Results of calls with the same id belong to them in order.
    """
    calls = step.tool_calls or []
    is_alone = len(calls) == 1 and len(step.results) == 1
    owned: list[list[AtifResult]] = [[] for _ in calls]
    for result in step.results:
        owner = calls[0].tool_call_id if is_alone else result.source_call_id
        if same := [own for call, own in zip(calls, owned, strict=True) if call.tool_call_id == owner]:
            next((own for own in same if not own), same[-1]).append(result)
    reply = Message(
        role="assistant",
        content=text_of(step.message),
        tool_calls=tuple(
            ToolCall(
                call_id=call.tool_call_id,
                name=call.function_name,
                arguments_json=canonical_json(call.arguments).decode(),
            )
            for call in calls
        ),
    )
    texts = [_texts(own) for own in owned]
    outcomes = tuple(CallResult(text="\n".join(each)) if each else None for each in texts)
    turn = ForeignTurn(
        conversation=request,
        reply=reply,
        outcomes=outcomes,
        usage=_usage(step.metrics),
        tools_json=tools_json,
        is_model_call=step.llm_call_count != 0,
        model=step.model_name,
        sub_agent=sub_agent,
        reasoning=Reasoning(text=step.reasoning_content) if step.reasoning_content else None,
    )
    others = [] if is_alone else [each for each in step.results if each.source_call_id is None]
    return turn, [
        reply,
        *result_messages(reply, outcomes),
        *(Message(role="user", content=text) for text in _texts(others)),
    ]


def _texts(results: Iterable[AtifResult]) -> list[str]:
    return [text_of(result.content) for result in results if result.content is not None]
