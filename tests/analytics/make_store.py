"""Small stores for tests: trials written down in a line, recorded through the recorder's own types.

An action is a text: ``read a.csv`` calls the tool read with the argument ``a.csv``, ``ask_user S1`` asks a question
whose answer reveals S1 (``~S2`` volunteers S2, ``-S2`` withholds it, ``=`` echoes the question, ``!echo`` is a reply
that was rejected as that, ``@m#1:S1,S2/S1`` a judge's reading, ``>declined`` a response state, ``>late:4`` one that a
message told after action 4), ``say ...`` is a turn of text alone, ``broken read`` a
call with broken JSON. ``one + two`` are two calls of one reply.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    BenchmarkSelected,
    CheckpointScored,
    ClarificationInjected,
    Envelope,
    Event,
    ExchangeReading,
    Excluded,
    FailedCheck,
    JudgedFlag,
    ModelCalled,
    ModelFailed,
    ModelResponded,
    NewTaskJudged,
    OracleBudgetSet,
    QuestionAnswered,
    QuestionAsked,
    QuestionJudged,
    Quota,
    RejectedAnswer,
    RejectedSegment,
    RepliedToolCall,
    RevealedSegment,
    RunStarted,
    SegmentsExtracted,
    SelectedVariant,
    TaskRegistered,
    TrialFailed,
    TrialFinished,
    TrialsDiscarded,
    TrialsNoted,
    TrialStarted,
    VariantGenerated,
    VariantRejected,
    VariantReviewed,
    Wire,
)
from lhaw_record.recorder.events.arrow_schema import to_table
from lhaw_record.recorder.events.canonical_json import canonical_json, digest, short_digest
from lhaw_record.recorder.events.values import Checkpoint, Segment, Task, Usage, Variant, prompt_state_and_channel
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.recorder.writing.stream import Stream
from lhaw_record.runners.judging.failure_modes import JUDGED

_DETAILS = {"cached_input_tokens": 4, "reasoning_tokens": 3, "cache_write_tokens": 2, "provider_cost_usd": 0.02}


class Store:
    """Collects events; ``snapshot()`` is what a reader would see.

    ``agents`` holds fields of ``trial_started`` that all trials of an agent have, by its name.

    Args:
        trials: Planned trials per cell, as the experiment file says.
        scope: Whose ``full`` trials are shared, task or variant.
        benchmark: The benchmark of its tasks.
    """

    def __init__(self, *, trials: int = 3, scope: str = "task", benchmark: str = "desk", experiment: str = "e"):
        self.envelopes: list[Envelope] = []
        self.live: set[str] = set()
        self.benchmark = benchmark
        self.scope = scope
        self.experiment = experiment
        self.tasks: dict[str, Task] = {}
        self.variants: dict[str, Variant] = {}
        self.agents: dict[str, dict[str, Any]] = {}
        self.streams: dict[tuple[str, str, int, str], str] = {}
        """The latest attempt of (unit, condition, index, agent)."""
        self._sequences: dict[str, int] = {}
        self._clock = 1_000_000
        self.start_run(trials=trials)

    def start_run(
        self, *, trials: int = 3, planned: int = 0, finished_before: int = 0, image: str | None = None
    ) -> None:
        """Begin a run; later trials belong to it."""
        self.run_id = f"run-{len(self.envelopes)}"
        self.add(
            self.run_id,
            RunStarted(
                run_id=self.run_id,
                config_json=json.dumps({"trials": trials, "sandbox": {"image": image}}),
                config_digest="0",
                code_version="0",
                packages=(),
                python_version="3",
                platform="x",
                cpu_count=1,
                planned_trials=planned,
                finished_before=finished_before,
            ),
        )

    def add(self, stream_id: str, event: Event, trial_id: str | None = None, attempt: int | None = None) -> None:
        """Append one event to a stream."""
        sequence = self._sequences.get(stream_id, 0)
        self._sequences[stream_id] = sequence + 1
        self._clock += 1
        self.envelopes.append(
            Envelope(
                stream_id=stream_id,
                sequence=sequence,
                recorded_at_us=self._clock,
                elapsed_ns=sequence,
                writer_id="w",
                experiment_id=self.experiment,
                trial_id=trial_id,
                attempt=attempt,
                event=event,
            )
        )

    def rewind(self, stream_id: str) -> None:
        """Let the next event of a stream take the place of the last one, which the caller has removed."""
        self._sequences[stream_id] -= 1

    def register(self, task: Task) -> None:
        """Register a task of a benchmark."""
        self.tasks[task.task_id] = task
        self.add(self.run_id, TaskRegistered(task=task, task_digest=task.task_digest))

    def task(
        self, task_id: str, totals: Sequence[float] = (1.0,), *, version: str = "1", domain: str | None = None
    ) -> Task:
        """Register a task with one checkpoint per total."""
        checkpoints = tuple(
            Checkpoint(checkpoint_id=f"c{place}", label=f"point {place}", total=total)
            for place, total in enumerate(totals, 1)
        )
        task = Task(
            benchmark=self.benchmark,
            benchmark_version=version,
            task_id=task_id,
            prompt=f"do {task_id}",
            checkpoints=checkpoints,
            environment_digest="0",
            domain=domain,
        )
        self.register(task)
        return task

    def variant(
        self, task_id: str, variant_id: str, dimensions: str = "goal", scores: str = "", refs: str = "", **fields: Any
    ) -> Variant:
        """Register a variant with one removed segment per dimension in the text.

        ``scores`` has criticality/guessability of each: ``1/0 0.5/1``. ``refs`` are the checkpoints that all decide.
        """
        segments = tuple(
            msgspec.structs.replace(segment, checkpoint_refs=tuple(refs.split()))
            for segment in _segments(dimensions, scores)
        )
        fields = {"prompt": f"do some {task_id}", "origin": "hand_written", **fields}
        variant = Variant(benchmark=self.benchmark, task_id=task_id, variant_id=variant_id, segments=segments, **fields)
        self.variants[variant_id] = variant
        self.add(self.run_id, VariantGenerated(variant=variant, variant_digest=variant.variant_digest))
        return variant

    def trial(
        self,
        unit: str,
        condition: str,
        index: int,
        *,
        scores: Sequence[float] | None = (1.0,),
        actions: Sequence[str] = ("submit",),
        agent: str = "a",
        is_success: bool | None = None,
        attempt: int = 1,
        host: str = "",
        ends: str = "finished",
        error_kind: str = "timeout",
        budget: int | None = None,
        injected_after: int | None = None,
        cost_usd: float | None = 0.01,
        ended_by: str = "submitted",
        finish_reason: str = "stop",
        call_in_text: str | None = None,
        broken_usd: float | str | None = "",
        has_details: bool = False,
        is_told: bool = False,
        beside: Sequence[Event] = (),
        times: Mapping[str, float] = MappingProxyType({}),
        **fields: Any,
    ) -> str:
        """Record one attempt of one trial and return its trial id.

        Args:
            unit: A variant, or a task for the conditions with the full prompt.
            condition: Its condition.
            index: The trial index, also its seed.
            scores: One per checkpoint; None leaves the attempt without results.
            actions: See the module.
            agent: Its name.
            is_success: All points reached, if None.
            attempt: Its number, from 1.
            host: What the stream's name ends with, where several hosts share a store.
            ends: finished, failed, running or interrupted.
            error_kind: Why its last call failed, of one that failed.
            budget: B of an injected trial.
            injected_after: The action after which the message went in; None: the trial ended before.
            cost_usd: Price of each model call.
            ended_by: How the agent's part ended.
            finish_reason: Why each reply ended.
            call_in_text: The notation of a tool call in the text of each reply.
            broken_usd: Price of a stream of 40 input and 8 output tokens that broke off, None if it is unknown, or
                ``unreported`` if the tokens are unknown too, ``partial`` if only the input is known. ``refused`` for a
                request that got HTTP 429. Empty if none failed.
            has_details: Each reply says what a cache had and took, what was reasoning, and what its provider charged.
            is_told: The conversation is recorded too: a prompt, and each reply with the results of its calls.
            beside: What else happened after the first reply and its actions.
            times: The times of its last event, in milliseconds.
            fields: Other fields of ``trial_started``.
        """
        variant = self.variants.get(unit)
        task = self.tasks[variant.task_id if variant else unit]
        state, channel = prompt_state_and_channel(condition)
        percent = int(condition.removeprefix("inject_")) if condition.startswith("inject_") else None
        keys = {
            "run_id": self.run_id,
            "benchmark": self.benchmark,
            "benchmark_version": "1",
            "task_id": task.task_id,
            "task_digest": task.task_digest,
            "prompt_state": state,
            "channel": channel,
            "condition": condition,
            "agent": agent,
            "agent_digest": digest(agent),
            "model": "m",
            "strategy": "none",
            "persona": "none",
            "ask_notice": "none",
            "trial_index": index,
            "seed": index,
            "grader": "g",
            "limits_json": "{}",
            "parameters_json": "{}",
            "prompts_digest": channel.partition("_")[0],
            "oracle_scope": self.scope,
            "sandbox": "process",
            "variant_id": variant.variant_id if variant else None,
            "variant_digest": variant.variant_digest if variant else None,
            "user_simulator": "exact" if channel == "ask_user" else None,
            "inject_percent": percent,
            "budget_actions": budget if percent else None,
            "inject_after_action": max(1, budget * percent // 100) if percent and budget else None,
            **self.agents.get(agent, {}),
            **fields,
        }
        identity = {name: value for name, value in keys.items() if name not in ("run_id", "budget_actions")}
        trial_id = short_digest(identity)
        stream = f"{trial_id}-{attempt}{host}"
        self.streams[unit, condition, index, agent] = stream
        self.add(stream, TrialStarted(**keys), trial_id, attempt)
        if ends in ("running", "interrupted"):
            if ends == "running":
                self.live.add(stream)
            return trial_id
        count = 0
        for batch in actions:
            said = {
                "finish_reason": finish_reason,
                "usage": Usage(
                    input_tokens=10, output_tokens=5, cost_usd=cost_usd, **(_DETAILS if has_details else {})
                ),
                "wire": Wire(call_in_text=call_in_text) if call_in_text else None,
            }
            self._reply(stream, trial_id, attempt, batch.split(" + "), count, said, is_told=is_told)
            for event in beside if count == 0 else ():
                self.add(stream, event, trial_id, attempt)
            count += len(batch.split(" + "))
        if broken_usd != "":
            spent = {"partial": (40, None)}.get(broken_usd, (40, 8))
            price = None if isinstance(broken_usd, str) else broken_usd
            used = Usage(input_tokens=spent[0], output_tokens=spent[1], cached_input_tokens=None, cost_usd=price)
            broken = ModelFailed(
                call_id="broken",
                role="agent",
                error_kind="connection",
                message="cut",
                is_retried=True,
                latency_ms=7.0,
                http_status=429 if broken_usd == "refused" else None,
                wire=Wire(sent_sha256="0" * 64),
                usage=None if broken_usd in ("unreported", "refused") else used,
            )
            self.add(stream, called("broken"), trial_id, attempt)
            self.add(stream, broken, trial_id, attempt)
        if percent is not None:
            is_injected = injected_after is not None
            message = ClarificationInjected(
                status="injected" if is_injected else "skipped",
                inject_percent=percent,
                target_action=keys["inject_after_action"] or 1,
                message="by the way" if is_injected else "",
                segment_ids=("S1",),
                after_action=injected_after,
                reason=None if is_injected else "ended_before",
            )
            self.add(stream, message, trial_id, attempt)
        if ends == "failed":
            self.add(stream, called("last"), trial_id, attempt)
            timeout = ModelFailed(
                call_id="last", role="agent", error_kind=error_kind, message="late", is_retried=False, latency_ms=5.0
            )
            self.add(stream, timeout, trial_id, attempt)
            failure = TrialFailed(
                boundary="model", error_kind=error_kind, message="late", is_retry_owed=True, duration_ms=1000.0
            )
            self.add(stream, failure, trial_id, attempt)
            return trial_id
        for checkpoint, score in zip(task.checkpoints, scores or (), strict=False):
            self.add(stream, scored(checkpoint, score), trial_id, attempt)
        reached = all(s >= c.total for s, c in zip(scores or (), task.checkpoints, strict=False))
        calls = len(actions)
        finished = TrialFinished(
            ended_by=ended_by,
            is_success=reached if is_success is None else is_success,
            final_answer="",
            action_count=count,
            checkpoint_count=len(task.checkpoints),
            duration_ms=2000.0,
            cost_usd=None
            if cost_usd is None or broken_usd in (None, "partial")
            else cost_usd * calls + _known(broken_usd),
            **times,
        )
        self.add(stream, finished, trial_id, attempt)
        return trial_id

    def _reply(
        self,
        stream: str,
        trial_id: str,
        attempt: int,
        batch: Sequence[str],
        before: int,
        said: Mapping[str, Any],
        *,
        is_told: bool,
    ) -> None:
        """One model call with the actions that it served."""
        call_id = f"m{before}"
        request = called(call_id)
        if is_told:
            said = {**said, "tool_calls": _tool_calls(batch, before)}
            request = self._continued(stream, request)
        self.add(stream, request, trial_id, attempt)
        responded = ModelResponded(
            call_id=call_id,
            role="agent",
            text=batch[0].partition("say ")[2] if batch[0].startswith("say ") else "",
            latency_ms=100.0,
            **said,
        )
        self.add(stream, responded, trial_id, attempt)
        for place, text in enumerate(batch, before + 1):
            self._action(stream, trial_id, attempt, place, text, call_id)

    def _continued(self, stream: str, request: ModelCalled) -> ModelCalled:
        """The request as one that goes on with the last one of its stream, and has the results since then."""
        mine = [each.event for each in self.envelopes if each.stream_id == stream]
        calls = [each for each in mine if isinstance(each, ModelCalled)]
        if not calls:
            new = [{"role": "user", "content": "do it"}]
        else:
            last = mine.index(calls[-1])
            new = [
                {"role": "tool", "result_of_action": each.action_index, "tool_call_id": f"t{each.action_index}"}
                for each in mine[last:]
                if isinstance(each, ActionFinished)
            ]
        shared = calls[-1].message_count + 1 if calls else 0
        return msgspec.structs.replace(
            request,
            parent_call_id=calls[-1].call_id if calls else None,
            shared_count=shared,
            message_count=shared + len(new),
            new_messages_json=canonical_json(new).decode(),
        )

    def _action(self, stream: str, trial_id: str, attempt: int, place: int, text: str, model_call_id: str) -> None:
        name, _, rest = text.strip(" ").partition(" ")
        kind, arguments = "tool", canonical_json({"value": rest}).decode()
        if name == "say":
            kind, name, arguments = "text", "", "{}"
        elif name == "broken":
            kind, name, arguments = "malformed", rest, '{"value": '
        call_id = None if kind == "text" else f"t{place}"
        started = ActionStarted(
            action_index=place,
            kind=kind,
            name=name,
            arguments_json=arguments,
            model_call_id=model_call_id,
            call_id=call_id,
        )
        self.add(stream, started, trial_id, attempt)
        if name == "ask_user" and kind == "tool":
            question = QuestionAsked(question_id=f"q{place}", question="which?", call_id=call_id, action_index=place)
            self.add(stream, question, trial_id, attempt)
            state, _, told_after = next((item[1:] for item in rest.split() if item[0] == ">"), "answered").partition(
                ":"
            )
            said = "Which ...?" if rest == "=" else "this"
            answer = QuestionAnswered(
                question_id=f"q{place}",
                answer=said if state in ("answered", "late") else None,
                response_state=state,
                after_action=int(told_after) if told_after else None,
                simulator="exact",
                latency_ms=1.0,
                revealed=tuple(
                    RevealedSegment(segment_id=item.lstrip("~"), is_requested=not item.startswith("~"))
                    for item in rest.split()
                    if item[0] not in "-!=@>"
                ),
                withheld=tuple(item[1:] for item in rest.split() if item[0] == "-"),
                rejected=tuple(RejectedAnswer(text="no", problem=item[1:]) for item in rest.split() if item[0] == "!"),
                readings=tuple(_reading(*item[1:].partition(":")[::2]) for item in rest.split() if item[0] == "@"),
            )
            self.add(stream, answer, trial_id, attempt)
        finished = ActionFinished(action_index=place, is_error=kind == "malformed", result="ok", duration_ms=10.0)
        self.add(stream, finished, trial_id, attempt)

    def budget(self, unit: str, counts: Iterable[int], budget: int, agent: str = "a") -> None:
        """Record the oracle budget of a unit."""
        counts = tuple(counts)
        event = OracleBudgetSet(
            agent=agent,
            agent_digest=digest(agent),
            benchmark=self.benchmark,
            scope=self.scope,
            unit_id=unit,
            budget_actions=budget,
            trial_ids=tuple(f"t{place}" for place, _ in enumerate(counts)),
            action_counts=counts,
        )
        self.add(self.run_id, event)

    def extract(self, task_id: str, dimensions: str, *, extractor: str = "rules/1", rejected: str = "") -> None:
        """Record the segments of a task, one per dimension in the text, and the values that were not taken."""
        event = SegmentsExtracted(
            benchmark=self.benchmark,
            task_id=task_id,
            task_digest=self.tasks[task_id].task_digest,
            extractor=extractor,
            extractor_digest=digest(extractor if extractor != "written" else f"written {task_id}"),
            grounding=("checkpoints",),
            segments=_segments(dimensions),
            rejected=tuple(RejectedSegment(value=value, reason="not in the prompt") for value in rejected.split()),
        )
        self.add(self.run_id, event)

    def reject(
        self, task_id: str, variant_id: str, checks: str, *, attempt: int = 1, is_final: bool = True, **fields: Any
    ) -> None:
        """Record a rewritten prompt that failed the checks whose names are in the text."""
        fields = {"rewriter": "rules/1", "severity": "delete", "prompt": f"do some {task_id}", **fields}
        event = VariantRejected(
            benchmark=self.benchmark,
            task_id=task_id,
            task_digest=self.tasks[task_id].task_digest,
            variant_id=variant_id,
            segments=_segments("goal"),
            rewriter_digest=digest(fields["rewriter"] if fields["rewriter"] != "written" else f"written {variant_id}"),
            attempt=attempt,
            is_final=is_final,
            reason=f"{len(checks.split())} checks failed",
            checks=tuple(FailedCheck(check=check, message=f"{check} failed") for check in checks.split()),
            **fields,
        )
        self.add(self.run_id, event)

    def select(
        self,
        name: str,
        classes: Mapping[str, str],
        classifier: str = "c",
        *,
        wanted: Mapping[str, int] | None = None,
        excluded: Mapping[str, int] | None = None,
    ) -> None:
        """Record a selection: the class of each chosen variant, how many were wanted, how many could not be chosen."""
        event = BenchmarkSelected(
            selection=name,
            benchmark=self.benchmark,
            seed=0,
            max_variants=sum((wanted or {}).values()),
            classifier=classifier,
            quotas=tuple(
                Quota(ambiguity_class=each, wanted=count, chosen=list(classes.values()).count(each))
                for each, count in (wanted or {}).items()
            ),
            variants=tuple(
                SelectedVariant(
                    variant_id=variant_id,
                    variant_digest=self.variants[variant_id].variant_digest,
                    ambiguity_class=ambiguity_class,
                )
                for variant_id, ambiguity_class in classes.items()
            ),
            excluded=tuple(Excluded(reason=reason, count=count) for reason, count in (excluded or {}).items()),
        )
        self.add(self.run_id, event)

    def judge_questions(self, stream: str, verdicts: Mapping[str, str], judge: str = "j") -> None:
        """Record a judge's flags of an attempt; the flags that are not named are ``no``."""
        flags = tuple(
            JudgedFlag(flag=flag, verdict=verdicts.get(flag, "no"), reason=f"{judge} on {flag}") for flag in JUDGED
        )
        event = QuestionJudged(judged_stream_id=stream, judge=judge, prompt_digest="p", flags=flags)
        self.add(self.run_id, event)

    def judge_call(self, stream: str, cost_usd: float | None) -> None:
        """Record a judge's call about an attempt."""
        call_id = f"judge-{stream}.{len(self.envelopes)}"
        self.add(self.run_id, msgspec.structs.replace(called(call_id), role="judge", thread_id=f"judge-{stream}"))
        responded = ModelResponded(
            call_id=call_id,
            role="judge",
            text="{}",
            finish_reason="stop",
            latency_ms=200.0,
            usage=Usage(input_tokens=30, output_tokens=3, cost_usd=cost_usd),
        )
        self.add(self.run_id, responded)

    def review(self, variant: str, reviewer: str, decision: str, reason: str | None = None) -> None:
        """Record what a reviewer decided about a variant."""
        reviewed = self.variants[variant]
        event = VariantReviewed(
            benchmark=self.benchmark,
            task_id=reviewed.task_id,
            variant_id=variant,
            variant_digest=reviewed.variant_digest,
            reviewer=reviewer,
            decision=decision,
            reason=reason,
        )
        self.add(self.run_id, event)

    def discard(self, streams: Iterable[str], reason: str = "why", **fields: bool) -> None:
        """Record that attempts are set aside, or taken back in with ``is_undone``."""
        self.add(self.run_id, TrialsDiscarded(stream_ids=tuple(streams), reason=reason, **fields))

    def note(self, streams: Iterable[str], author: str, note: str = "", **fields: Any) -> None:
        """Record what a person notes about attempts, or takes back with ``is_undone``."""
        self.add(self.run_id, TrialsNoted(stream_ids=tuple(streams), author=author, note=note, **fields))

    def judge_new_task(self, variant: str, streams: Iterable[str], verdict: str, judge: str = "j") -> None:
        """Record a judge's verdict on the trials of a variant."""
        event = NewTaskJudged(
            variant_digest=self.variants[variant].variant_digest,
            judged_stream_ids=tuple(streams),
            verdict=verdict,
            reason=f"{judge} says {verdict}",
            judge=judge,
            prompt_digest="p",
        )
        self.add(self.run_id, event)

    def regrade(
        self, unit: str, stream: str, scores: Sequence[float | None], grading_id: str = "again", grader: str = "g2"
    ) -> None:
        """Record later results of an attempt, one per checkpoint; None leaves one out."""
        variant = self.variants.get(unit)
        for checkpoint, score in zip(self.tasks[variant.task_id if variant else unit].checkpoints, scores, strict=True):
            if score is not None:
                event = scored(checkpoint, score, is_primary=False, graded_stream_id=stream)
                self.add(self.run_id, msgspec.structs.replace(event, grading_id=grading_id, grader=grader))

    def snapshot(self, envelopes: list[Envelope] | None = None) -> Snapshot:
        """Return everything so far as a reader would see it."""
        return Snapshot(
            store=Path(),
            segments=(),
            open_rows=to_table(self.envelopes if envelopes is None else envelopes),
            live_streams=frozenset(self.live),
        )


async def write_events(folder: Path, envelopes: Sequence[Envelope]) -> None:
    """Record events in a new store on disk, each under its experiment."""
    store = create_store(folder)
    for experiment in dict.fromkeys(each.experiment_id for each in envelopes):
        async with StoreRecorder(store, experiment) as recorder:
            streams: dict[str, Stream] = {}
            for each in envelopes:
                if each.experiment_id == experiment:
                    if each.stream_id not in streams:
                        streams[each.stream_id] = recorder.stream(
                            each.stream_id, trial_id=each.trial_id, attempt=each.attempt
                        )
                    await streams[each.stream_id].append(each.event)


def scored(checkpoint: Checkpoint, score: float, **fields: Any) -> CheckpointScored:
    """Return the primary result of a checkpoint."""
    return CheckpointScored(
        checkpoint_id=checkpoint.checkpoint_id,
        label=checkpoint.label,
        score=score,
        total=checkpoint.total,
        details="",
        grader="g",
        grading_id="1",
        **fields,
    )


def _segments(dimensions: str, scores: str = "") -> tuple[Segment, ...]:
    """One segment per dimension in the text; scores as for :meth:`Store.variant`."""
    pairs = [tuple(map(float, pair.split("/"))) for pair in scores.split()] or [(None, None)] * 9
    return tuple(
        Segment(
            segment_id=f"S{place}",
            value=f"value {place}",
            dimension=name,
            subdimension="any",
            criticality=pairs[place - 1][0],
            guessability=pairs[place - 1][1],
        )
        for place, name in enumerate(dimensions.split(), 1)
    )


def _tool_calls(batch: Sequence[str], before: int) -> tuple[RepliedToolCall, ...]:
    names = [text.strip(" ").partition(" ")[0] for text in batch]
    return tuple(
        RepliedToolCall(call_id=f"t{place}", name=name, arguments_json="{}")
        for place, name in enumerate(names, before + 1)
    )


def called(call_id: str) -> ModelCalled:
    """Return a request of the agent."""
    return ModelCalled(
        call_id=call_id,
        role="agent",
        thread_id="main",
        call_kind="main",
        model="m",
        parameters_json="{}",
        request_digest="0",
        shared_count=0,
        message_count=1,
        new_messages_json="[]",
    )


def _known(price: float | str | None) -> float:
    return price if isinstance(price, float) else 0.0


def _reading(judge: str, said: str) -> ExchangeReading:
    """Return what a judge says, written as ``asked,asked/given,given``; everything is ``*``."""
    asked, given = ([each for each in part.split(",") if each] for part in said.split("/"))
    asks_for = tuple(each for each in asked if each != "*")
    withheld = tuple(each for each in asks_for if each not in given)
    extra = set(given) - set(asks_for)
    return ExchangeReading(
        judge=judge,
        request="everything" if "*" in asked else "segments" if asks_for else "something_else",
        asks_for=asks_for,
        gives=tuple(given),
        withheld=withheld,
        verdict=("leaked" if "*" in asked else "volunteered") if extra else "withheld" if withheld else "right",
    )
