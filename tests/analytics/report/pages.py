"""Stores and pages for the tests of the report."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec

from lhaw_record.analytics.report import Page, page_of
from lhaw_record.analytics.views.store import below_tables, connect
from lhaw_record.recorder.events import Event, ModelFailed, ModelResponded, RepliedToolCall, Usage
from lhaw_record.recorder.reading.reader import Snapshot
from tests.analytics.make_store import Store, called
from tests.analytics.views.test_views import busy_store

ATTACK = "</script><img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
MARKER = "<!--script-->{{ title }}&lt;b&gt;$x$ \u202e\x07_\u2028"


def page_about(snapshot: Snapshot, name: str = "some store", **parameters: object) -> Page:
    """The page about a store in memory."""
    connection = connect(snapshot, parameters=parameters, only=below_tables())
    try:
        return page_of(connection, name)
    finally:
        connection.close()


def hostile_store() -> Store:
    """A store whose every name and text tries to become markup, or to upset a picture."""
    store = Store(trials=3, benchmark=f"bench{MARKER}", experiment=ATTACK)
    task, variant = f"task {ATTACK}", f"variant {ATTACK}{MARKER}"
    store.task(task, (1.0, 1.0))
    store.variant(
        task, variant, "goal input", prompt=f"prompt {ATTACK}", ambiguity_class="benign", classified_by=ATTACK
    )
    for agent in (f"_agent {ATTACK}", f"$agent$ {MARKER}"):
        for index in range(3):
            common = {"agent": agent, "scores": (1, index % 2)}
            act = [f"read {ATTACK}", f"say {ATTACK}", f"broken {ATTACK}", "submit"]
            store.trial(task, "full", index, actions=act, **common)
            store.trial(variant, "underspecified", index, actions=act, **common)
            store.trial(variant, "ask_user", index, actions=[f"ask_user {ATTACK.replace(' ', '_')}", *act], **common)
        store.budget(task, (4, 4, 4), 4, agent=agent)
        for percent in (10, 30, 50, 70, 90):
            for index in range(3):
                place = max(1, 4 * percent // 100)
                store.trial(
                    variant,
                    f"inject_{percent}",
                    index,
                    agent=agent,
                    scores=(1, index % 2),
                    actions=act,
                    budget=4,
                    injected_after=place,
                )
        store.trial(variant, "underspecified", 3, agent=agent, ends="failed")
    for persona in ("supervisor", "executive"):
        for index in range(3):
            asks = [f"ask_user {ATTACK.replace(' ', '_')}", "submit"]
            store.trial(
                variant, "ask_user", index, agent=f"{persona} {MARKER}", persona=persona, actions=asks, scores=(1, 1)
            )
    return store


def mixed_store() -> Store:
    """The busy store, and beside its benchmark a second one in which one cell has too few trials."""
    store = busy_store()
    store.benchmark = "second"
    store.task("r", (1.0,))
    store.variant("r", "x", "goal", ambiguity_class="benign", classified_by="authors")
    store.trial("x", "underspecified", 0)
    store.note([store.streams["x", "underspecified", 0, "a"]], "anna", "a strange end", cause="grader")
    return store


def threaded_store() -> Store:
    """A store with one trial, in which a sub-agent works and forks, a title is asked for, and a request fails."""
    store = Store(trials=1)
    store.task("t")
    beside = [
        *_call("s1", "worker", "sub_agent", {"system": "You count.", "user": "count the rows"}, ""),
        *_call("s2", "worker", "sub_agent", {"tool": "41 rows"}, "There are 41.", parent="s1", shared=3),
        *_call("f1", "worker-2", "sub_agent", {"user": "look again"}, "42, in truth.", parent="s2", shared=5),
        *_call("t1", "title", "side", {"user": "name it"}, "Counting"),
    ]
    request, _ = _call("m9", "main", "main", {"tool": "ok"}, "", parent="m0", shared=2)
    failed = ModelFailed(
        call_id="m9", role="agent", error_kind="rate_limit", message="slow down", is_retried=True, latency_ms=3.0
    )
    store.trial("t", "full", 0, actions=["task count", "submit"], is_told=True, beside=(*beside, request, failed))
    return store


def _call(
    name: str, thread: str, kind: str, new: dict[str, str], said: str, *, parent: str = "", shared: int = 0
) -> Iterator[Event]:
    """A request with its new messages by their roles, and the reply; one that says nothing calls grep."""
    yield msgspec.structs.replace(
        called(name),
        thread_id=thread,
        call_kind=kind,
        parent_call_id=parent or None,
        shared_count=shared,
        message_count=shared + len(new),
        new_messages_json=json.dumps(
            [
                {"role": role, "content": text, **({"tool_call_id": "g1"} if role == "tool" else {})}
                for role, text in new.items()
            ]
        ),
    )
    yield ModelResponded(
        call_id=name,
        role="agent",
        text=said,
        finish_reason="stop",
        latency_ms=5.0,
        tool_calls=() if said else (RepliedToolCall(call_id="g1", name="grep", arguments_json='{"pattern":"x"}'),),
        usage=Usage(cost_usd=0.001),
    )


def written(page: Page, folder: Path) -> str:
    """The address of a page that was written into a folder."""
    path = folder / "report.html"
    path.write_text(page.html, encoding="utf-8")
    return path.as_uri()


__all__ = ["ATTACK", "MARKER", "busy_store", "hostile_store", "mixed_store", "page_about", "threaded_store", "written"]
