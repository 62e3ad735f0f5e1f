"""Find what a store shows, and say it in sentences. Every number in a sentence is a rounded table cell.

A difference is claimed only by :meth:`_Said.claim`, from a row of the table ``claims``, if its p-value, corrected over
everything that findings may claim, is below the level of the intervals. Everything else is reported as not shown, or as
not known, with the reason. Levels and amounts are reported as measured.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Literal, NamedTuple

import msgspec

from lhaw_record.analytics.findings import MEASURES
from lhaw_record.analytics.statistics.inference import FEWEST_CLUSTERS
from lhaw_record.analytics.tables.catalogue import spec_of
from lhaw_record.analytics.tables.labels import measure_of
from lhaw_record.analytics.tables.notes import depends_on_missing
from lhaw_record.analytics.tables.render import number_in_unit
from lhaw_record.analytics.tables.tables import Row, Table

Verdict = Literal["shown", "not shown", "not known", "measured"]

NEEDED = (
    "overall",
    "claims",
    "agent_differences",
    "looks",
    "losses",
    "gain_tests",
    "wasted",
    "over_asking",
    "net_value",
    "question_quality",
)
"""The tables that findings are made from."""

_COST = "What did missing information cost?"
_GAIN = "What did asking gain, and for whom?"
_LATE = "When did information come too late?"
_WASTE = "What was wasted?"
_TOO_MUCH = "Who asks too much, and what for?"
_LOOKS = "How often was the study looked at?"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence, and the table row that supports it.

    Attributes:
        benchmark: The benchmark; ``all`` pools several.
        agent: The agent, or nothing.
        verdict: Whether a difference is shown. ``measured`` is a level or an amount.
        wording: The sentence without its sample size, with ``{agent}`` for the agent and ``{s}`` for the verb's s.
        size: The sample size: how many tasks and trials the numbers come from, or nothing.
        settled_by: The command or number of tasks that would settle the question; empty if unknown.
        keys: The keys of the row in the table.
        family: The claims that the p-value is corrected over; empty if nothing is claimed.
        p_family: The corrected p-value.
    """

    question: str
    benchmark: str
    agent: str
    verdict: Verdict
    wording: str
    size: str
    settled_by: str
    table: str
    keys: dict[str, str]
    family: str = ""
    p_family: float | None = None

    def __post_init__(self) -> None:
        """Refuse a claim without a family, because nothing would correct its p-value."""
        if self.verdict == "shown" and (not self.family or self.p_family is None):
            raise ValueError(f"a claim without a family and its p-value: {self.wording}")

    @property
    def sentence(self) -> str:
        """The whole sentence."""
        return _worded(self.wording, [self.agent], self.size)

    @property
    def is_known(self) -> bool:
        """Whether the finding says something about the agents, not only what is unknown."""
        return self.verdict != "not known"


class GroupedFinding(NamedTuple):
    """A sentence about all agents for which it is true.

    Attributes:
        findings: The finding for each agent.
        sentence: The sentence, with its sample size unless that equals :attr:`QuestionFindings.size`.
    """

    findings: tuple[Finding, ...]
    sentence: str


class QuestionFindings(NamedTuple):
    """The answers to a question, and the sample size that most of them share; empty if no two agree."""

    question: str
    size: str
    answers: tuple[GroupedFinding, ...]


def by_question(found: Iterable[Finding]) -> list[QuestionFindings]:
    """Group findings by question. Findings that differ only in their agent become one sentence."""
    grouped = []
    for question, of_question in groupby(found, key=lambda each: each.question):
        equal: dict[tuple[str, ...], list[Finding]] = {}
        for each in of_question:
            equal.setdefault((each.benchmark, each.verdict, each.wording, each.size, each.settled_by), []).append(each)
        sizes = Counter(each[0].size for each in equal.values() if each[0].agent and each[0].size)
        size, count = max(sizes.items(), key=lambda item: item[1], default=("", 0))
        shared = size if count > 1 else ""
        answers = tuple(_answer(each, shared) for each in equal.values())
        grouped.append(QuestionFindings(question, shared, answers))
    return grouped


def _answer(equal: Sequence[Finding], shared: str) -> GroupedFinding:
    first, agents = equal[0], [each.agent for each in equal]
    size = "" if first.agent and first.size == shared else first.size
    return GroupedFinding(tuple(equal), _worded(first.wording, agents, size))


def _worded(wording: str, agents: Sequence[str], size: str) -> str:
    *others, last = agents
    names = f"{', '.join(others)} and {last}" if others else last
    end = f" ({size}{' per agent' if others else ''})." if size else "."
    return wording.replace("{agent}", names).replace("{s}", "" if others else "s") + end


class _Difference(NamedTuple):
    """The sentence about a difference of one agent, by verdict and sign.

    ``subject`` begins the sentence if there is no interval. Values of the row are inserted for names in braces.
    """

    question: str
    condition: str
    kind: str
    above: str
    below: str
    open: str
    subject: str


_COST_OF_MISSING = _Difference(
    question=_COST,
    condition="underspecified",
    kind="loss",
    above="Missing information costs {agent} {estimate} of {measure}",
    below="Missing information helps {agent}: the loss of {measure} is {estimate}",
    open="It is unclear whether missing information harms {agent}: the loss of {measure} is {estimate}",
    subject="The cost of missing information to {agent}",
)
_GAIN_OF_ASKING = _Difference(
    question=_GAIN,
    condition="ask_user",
    kind="gain",
    above="Asking helps {agent}: {measure} rises by {estimate}",
    below="Asking harms {agent}: {measure} changes by {estimate}",
    open="It is unclear whether asking helps {agent}: {measure} changes by {estimate}",
    subject="The gain from asking for {agent}",
)
_LEFT_AFTER_ASKING = _Difference(
    question=_GAIN,
    condition="ask_user",
    kind="loss",
    above="Asking does not recover everything for {agent}: {estimate} of {measure} remains lost",
    below="Having to ask helps {agent} more than the full prompt: the loss of {measure} is {estimate}",
    open="It is unclear whether asking recovers everything for {agent}: the remaining loss of {measure} is {estimate}",
    subject="The loss that remains when {agent} can ask",
)
_COST_OF_LATE = _Difference(
    question=_LATE,
    condition="inject",
    kind="loss",
    above="Information {when} is too late for {agent}: {estimate} of {measure} remains lost",
    below="Information {when} helps {agent} more than the full prompt: the loss of {measure} is {estimate}",
    open="It is unclear whether information {when} is too late for {agent}: "
    "the remaining loss of {measure} is {estimate}",
    subject="The loss that remains for {agent} after information {when}",
)
_COST_OF_CHANNEL = _Difference(
    question=_TOO_MUCH,
    condition="full_ask_user",
    kind="difference",
    above="Being able to ask helps {agent} even with the full prompt: {measure} changes by {estimate}",
    below="Being able to ask harms {agent} with the full prompt: {measure} changes by {estimate}",
    open="It is unclear whether being able to ask affects {agent} with the full prompt: "
    "{measure} changes by {estimate}",
    subject="The effect on {agent} of being able to ask with the full prompt",
)
_MEASURES_SHOWN = {"pass_at_1": "pass@1", "pass_at_k": "pass@k", "checkpoint_progress": "progress"}
_ASKING_UNKNOWN = "How often {agent} ask{s} with the full prompt is unknown"
_PRECISION_UNKNOWN = "It is unknown what share of the questions of {agent}{user} target removed information"
_WASTE_UNKNOWN = "How much {agent} waste{s} before a message {when} is unknown"
_LATE_WASTE_UNKNOWN = "What {agent} waste{s} before a late message is unknown"
_PLANNED = {("gain", "ask_user"): "", ("loss", "underspecified"): " --of loss"}
"""The options of ``power`` that plan a claim. ``power`` plans no other claims."""

_REMEDIES = {
    "incomplete_grading": "trials that are graded completely",
    "no_actions": "trials with an action before the message",
    "no_oracle_trace": "valid trials under full to compare the actions with",
    "no_points": "tasks with checkpoints that give points",
    "no_units": "trials of this cell",
    "no_valid_trials": "valid trials; all planned trials are missing",
    "no_variation": "tasks with other values; all tasks have this value, so its uncertainty is unknown",
    "nobody_asked": "trials in which the agent asks",
    "not_injected": "trials that reach their injection",
    "not_run": "trials of this cell",
    "one_arm_only": "trials under both conditions of the same variants",
    "simulator_answers_everything": "trials with another simulated user; `dump` answers every question with everything",
    "too_few_trials": "more trials of each cell; pass@k needs k of them",
    "unknown_actions": "trials whose record says what the agent did",
    "unknown_price": "a price of the model in the experiment file",
    "unknown_revealed": "trials whose record says what each answer revealed",
    "unknown_segments": "variants whose removed segments are recorded",
    "unknown_tokens": "trials whose tokens were all reported",
}
"""How to obtain a missing value or interval, by the reason in its row."""


class _Said(NamedTuple):
    """The input of all sentences.

    Attributes:
        measure: The success measure.
        timing_measure: The success measure for the point of no return.
        confidence: The confidence level of the intervals.
    """

    tables: Mapping[str, Table]
    measure: str
    timing_measure: str
    confidence: float

    def rows(self, table: str, where: Mapping[str, str]) -> list[Row]:
        """Return the rows of single agents with these values."""
        return [
            row
            for row in self.tables[table].rows
            if row["agent"] != "all"
            and row.get("success", self.measure) == self.measure
            and all(row[name] == value for name, value in where.items())
        ]

    def agents(self) -> list[tuple[str, str]]:
        """Return every pair of benchmark and agent in any of the tables."""
        return sorted(
            {(row["benchmark"], row["agent"]) for name in NEEDED if name != "looks" for row in self.rows(name, {})}
        )

    def absent(self, rows: Iterable[Row]) -> list[tuple[str, str]]:
        """Return the benchmarks and agents without a row, or none if no agent has a row."""
        present = {(row["benchmark"], row["agent"]) for row in rows}
        return [each for each in self.agents() if present and each not in present]

    def claim(self, question: str, row: Row, wording: str) -> Finding:
        """Return a difference that is shown, or not shown, with its corrected p-value."""
        verdict = _verdict(row)
        family = f"{row['n_family']:,} {'claim' if row['n_family'] == 1 else 'claims'}"
        evidence = f", corrected p = {row['p_family']:.2g} (family of {family})"
        found = self.finding(question, "claims", row, "not shown", wording + evidence)
        return msgspec.structs.replace(
            found,
            verdict=verdict,
            family=family,
            p_family=row["p_family"],
            settled_by=found.settled_by if verdict == "not shown" else "",
        )

    def finding(self, question: str, table: str, row: Row, verdict: Verdict, wording: str) -> Finding:
        return Finding(
            question=question,
            benchmark=row["benchmark"],
            agent="" if row.get("agent", "all") == "all" else row["agent"],
            verdict=verdict,
            wording=wording,
            size=_size(row),
            settled_by=self._settled_by(table, row, verdict),
            table=table,
            keys={name: str(row[name]) for name in spec_of(table).keys},
        )

    def _settled_by(self, table: str, row: Row, verdict: Verdict) -> str:
        if row["value"] is not None and row["low"] is not None:
            if verdict != "not shown" or table != "claims":
                return ""
            of = _PLANNED.get((row["measure"].rpartition("_")[2], row["condition"]))
            return "more tasks" if of is None else f"more tasks; `lhaw-record power STORE{of}` says how many"
        if row["reason"] != "too_few_clusters":
            return _REMEDIES.get(row["reason"], "")
        is_tested = table in ("claims", "agent_differences")
        needed = 1 + math.ceil(-math.log2(round(1 - self.confidence, 12))) if is_tested else FEWEST_CLUSTERS
        if row["n_clusters"] >= needed:
            return "more tasks with questions"
        return f"at least {needed} tasks for an interval; there {_are(row['n_clusters'])}"


def findings(tables: Mapping[str, Table], measure: str, timing_measure: str, confidence: float) -> tuple[Finding, ...]:
    """Return everything that the tables show."""
    said = _Said(tables, measure, timing_measure, confidence)
    return (
        *_differences(said, _COST_OF_MISSING),
        *_differences(said, _GAIN_OF_ASKING),
        *_differences(said, _LEFT_AFTER_ASKING),
        *_recovered(said),
        *_ranks(said),
        *_break_even(said),
        *_too_late(said),
        *_point_of_no_return(said),
        *_wasted(said),
        *_asked_in_vain(said),
        *_precision(said),
        *_looks(said),
    )


def _differences(said: _Said, what: _Difference, when: str = "", benchmark: str | None = None) -> Iterator[Finding]:
    """Yield one difference for every agent (of a benchmark, if given), or report that no agent has it."""
    rows = said.rows("claims", {"condition": what.condition, "measure": f"{said.measure}_{what.kind}"})
    needs_full = what.kind == "loss"
    where_bounds = {"condition": what.condition} if needs_full else {"split": "overall"}
    where_bounds["measure"] = f"{said.measure}_{what.kind}"
    bounded = said.rows("losses" if needs_full else "gain_tests", where_bounds)
    bounds = {(row["benchmark"], row["agent"]): row for row in bounded}
    if not rows:
        yield _nothing(what.question, "losses" if needs_full else "claims", what.condition)
    for row in rows:
        if benchmark not in (None, row["benchmark"]):
            continue
        verdict = _verdict(row)
        wording = {
            "shown": what.above if (row["value"] or 0) > 0 else what.below,
            "not shown": what.open,
            "not known": what.subject
            + (" is unknown" if row["value"] is None else " is estimated at {value} of {measure}, without an interval"),
        }[verdict]
        sentence = wording.format(
            agent="{agent}",
            estimate=_estimate(row),
            value=_bare(row),
            measure=_MEASURES_SHOWN[said.measure],
            when=when,
        )
        if verdict == "not known":
            yield said.finding(what.question, "claims", row, verdict, sentence)
        else:
            if_missing = _if_missing(bounds.get((row["benchmark"], row["agent"]))) if verdict == "shown" else ""
            yield said.claim(what.question, row, sentence + if_missing)
    for where, agent in said.absent(rows):
        if benchmark in (None, where):
            wording = f"{what.subject} is unknown".format(agent="{agent}", when=when)
            yield _absent(what.question, "losses" if needs_full else "claims", where, agent, wording, what.condition)


def _verdict(row: Row) -> Literal["shown", "not shown", "not known"]:
    if row["low"] is None or row["p_family"] is None:
        return "not known"
    return "shown" if row["is_shown"] else "not shown"


def _if_missing(row: Row | None) -> str:
    """Say between which bounds a difference lies, if missing trials could undo its verdict."""
    if row is None or not depends_on_missing(row):
        return ""
    low, high = (number_in_unit(row["measure"], row[bound]) for bound in ("worst_low", "best_high"))
    return f", but depending on missing trials it may be anything from {low} to {high} (a range with 0)"


def _recovered(said: _Said) -> Iterator[Finding]:
    """Yield the share of what missing information costs that asking recovers, beside the share of full."""
    whole = {
        (row["benchmark"], row["agent"]): row
        for row in said.rows("overall", {"measure": f"{said.measure}_share_of_full"})
    }
    for row in said.rows("overall", {"measure": f"{said.measure}_recovered_share"}):
        if row["value"] is None or row["reason"] == "too_few_clusters":
            continue
        share = f"{_bare(row)} (any share is possible)" if row["reason"] == "unbounded" else _estimate(row)
        beside, measure = _bare(whole[row["benchmark"], row["agent"]]), _MEASURES_SHOWN[said.measure]
        sentence = (
            f"Asking recovers {share} of the {measure} that missing information costs {{agent}}; "
            f"{measure} with asking is {beside} of {measure} with the full prompt"
        )
        yield said.finding(_GAIN, "overall", row, "measured", sentence)


def _ranks(said: _Said) -> Iterator[Finding]:
    """Yield the rank of each agent by what asking gains, with the ranks that differences between agents allow."""
    seen = set()
    for row in said.rows("agent_differences", {"measure": f"{said.measure}_gain_lead"}):
        for agent, rank in ((row["agent"], "rank"), (row["other_agent"], "other_rank")):
            if (row["benchmark"], agent) in seen or row["p_family"] is None:
                continue
            seen.add((row["benchmark"], agent))
            value, low, high = (row[f"{rank}{end}"] for end in ("", "_low", "_high"))
            sentence = (
                f"In the ranking by gain from asking, {{agent}} hold{{s}} rank {value} "
                f"(possible: {low} to {high} after correction over all pairs)"
            )
            found = said.finding(_GAIN, "agent_differences", row, "measured", sentence)
            yield msgspec.structs.replace(found, agent=agent)


def _break_even(said: _Said) -> Iterator[Finding]:
    """Yield the break-even cost of a question, for agents with a shown gain."""
    helped = {
        (row["benchmark"], row["agent"])
        for row in said.rows("claims", {"measure": f"{said.measure}_gain"})
        if _verdict(row) == "shown" and row["value"] > 0
    }
    for row in said.rows("net_value", {"measure": f"{MEASURES[said.measure]}_break_even_pp"}):
        if (row["benchmark"], row["agent"]) not in helped:
            continue
        if row["low"] is None:
            sentence = "The break-even cost of a question for {agent} is unknown"
            yield said.finding(_GAIN, "net_value", row, "not known", sentence)
        else:
            sentence = (
                f"Asking pays off for {{agent}} if a question costs less than {_estimate(row)} "
                f"of {_MEASURES_SHOWN[said.measure]}"
            )
            yield said.finding(_GAIN, "net_value", row, "measured", sentence)


def _latest(said: _Said) -> dict[str, str]:
    """Return the condition of the latest injection for every benchmark that has injections."""
    latest: dict[str, str] = {}
    for row in (*said.rows("claims", {}), *said.rows("wasted", {})):
        condition = row["condition"]
        if condition.startswith("inject_"):
            latest[row["benchmark"]] = max(latest.get(row["benchmark"], ""), condition)  # all have two digits
    return latest


def _too_late(said: _Said) -> Iterator[Finding]:
    """Yield the loss at the latest injection of each benchmark."""
    latest = _latest(said)
    if not latest:
        yield _nothing(_LATE, "voi", None)
        return
    for benchmark in dict.fromkeys(benchmark for benchmark, _ in said.agents()):
        if benchmark in latest:
            what = _COST_OF_LATE._replace(condition=latest[benchmark])
            yield from _differences(said, what, _when(latest[benchmark]), benchmark)
        else:
            yield from _not_injected(said, benchmark, _LATE, "losses", f"{_COST_OF_LATE.subject} is unknown")


def _point_of_no_return(said: _Said) -> Iterator[Finding]:
    """Yield the latest injection up to which information still helps, over all variants and for every dimension."""
    measure = _MEASURES_SHOWN[said.timing_measure]
    curves: dict[str, list[Row]] = {}
    for row in said.tables["claims"].rows:
        if row["success"] == said.measure and row["measure"] == "injection_gain":
            curves.setdefault(row["dimension"], []).append(row)
    pooled = ["all agents together"] if len({agent for _, agent in said.agents()}) > 1 else []
    for dimension, rows in curves.items():
        whose = " and ".join(pooled if dimension == "all" else [*pooled, f"missing {dimension} segments"])
        where = f"for {whose}, " if whose else ""
        reached = list(takewhile(lambda row: _verdict(row) == "shown", rows))
        is_curve = len(rows) > 1
        if reached:
            when = _when(reached[-1]["condition"])
            improves = f"{measure} up to {when.removeprefix('at ')}, by" if is_curve else f"{measure} {when} by"
            sentence = f"{where}information improves {improves} {_estimate(reached[-1])}{' there' * is_curve}"
            yield said.claim(_LATE, reached[-1], _capitalised(sentence))
        elif _verdict(rows[0]) == "not shown":
            when = "even at the earliest injection, so there is no window" if is_curve else _when(rows[0]["condition"])
            sentence = f"{where}information is not shown to improve {measure} {when}: {_estimate(rows[0])}"
            yield said.claim(_LATE, rows[0], _capitalised(sentence))
        else:
            sentence = f"{where}it is unknown how late information still improves {measure}"
            yield said.finding(_LATE, "claims", rows[0], "not known", _capitalised(sentence))


def _capitalised(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _wasted(said: _Said) -> Iterator[Finding]:
    """Yield what an agent did before the latest message, and how much of that no trial with the full prompt does."""
    rows, latest = said.rows("wasted", {}), _latest(said)
    if not rows:
        yield _nothing(_WASTE, "wasted", None)
        return
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        if row["condition"] == latest[row["benchmark"]]:
            found.setdefault((row["benchmark"], row["agent"]), {})[row["measure"]] = row
    for (benchmark, _), of in found.items():
        row, when = of["wasted_pct"], _when(latest[benchmark])
        if row["value"] is None:
            sentence = _WASTE_UNKNOWN.replace("{when}", when)
            yield said.finding(_WASTE, "wasted", row, "not known", sentence)
            continue
        spent, done = of["pre_injection_cost_usd"], of["pre_injection_actions"]
        has_none = all(each["low"] is None for each in (row, spent, done, of["wasted_actions"]))
        said_as = _bare if has_none else _estimate
        is_unknown = spent["value"] is None
        cost = "the cost is unknown" if is_unknown else f"replies until then cost {said_as(spent)}"
        sentence = (
            f"Before a message {when}, {{agent}} took {said_as(done)}; "
            f"{said_as(of['wasted_actions'], is_bare=True)} of them ({said_as(row)}) occur in no "
            f"trial with the full prompt; {cost}"
            f"{', without intervals' if has_none else ''}"
        )
        yield said.finding(_WASTE, "wasted", row, "measured", sentence)
    for benchmark, agent in said.agents():
        if benchmark not in latest:
            yield from _not_injected(said, benchmark, _WASTE, "wasted", _LATE_WASTE_UNKNOWN, agent)
        elif (benchmark, agent) not in found:
            wording = _WASTE_UNKNOWN.replace("{when}", _when(latest[benchmark]))
            yield _absent(_WASTE, "wasted", benchmark, agent, wording, latest[benchmark])


def _asked_in_vain(said: _Said) -> Iterator[Finding]:
    """Yield which agents ask when nothing is missing, and what asking changes."""
    asking = said.rows("over_asking", {"measure": "ask_pct"})
    if not asking:
        yield _nothing(_TOO_MUCH, "over_asking", "full_ask_user")
        return
    for row in asking:
        if row["value"] is None:
            yield said.finding(_TOO_MUCH, "over_asking", row, "not known", _ASKING_UNKNOWN)
            continue
        sentence = f"With the full prompt, {{agent}} ask{{s}} in {_estimate(row)} of trials"
        yield said.finding(_TOO_MUCH, "over_asking", row, "measured", sentence)
    for benchmark, agent in said.absent(asking):
        yield _absent(_TOO_MUCH, "over_asking", benchmark, agent, _ASKING_UNKNOWN, "full_ask_user")
    if said.measure != "checkpoint_progress":
        yield from _differences(said, _COST_OF_CHANNEL)
        return
    yield Finding(
        question=_TOO_MUCH,
        benchmark="all",
        agent="",
        verdict="not known",
        wording="The effect on progress of being able to ask with the full prompt is unknown: no table computes it",
        size="",
        settled_by="the same question about pass@1, `--measure pass_at_1`",
        table="over_asking",
        keys={},
    )


def _precision(said: _Said) -> Iterator[Finding]:
    """Yield how many questions ask for removed information, per simulated user if there are several."""
    rows = said.rows("question_quality", {"measure": "precision_micro"})
    if not rows:
        yield _nothing(_TOO_MUCH, "question_quality", "ask_user")
    has_several = len({row["user_simulator"] for row in rows}) > 1
    for row in rows:
        user = f" to the simulated user {row['user_simulator']}" if has_several else ""
        if row["value"] is None:
            sentence = _PRECISION_UNKNOWN.replace("{user}", user)
            yield said.finding(_TOO_MUCH, "question_quality", row, "not known", sentence)
            continue
        sentence = f"Of the questions that {{agent}} ask{{s}}{user}, {_estimate(row)} target removed information"
        yield said.finding(_TOO_MUCH, "question_quality", row, "measured", sentence)
    for benchmark, agent in said.absent(rows):
        wording = _PRECISION_UNKNOWN.replace("{user}", "")
        yield _absent(_TOO_MUCH, "question_quality", benchmark, agent, wording, "ask_user")


def _looks(said: _Said) -> Iterator[Finding]:
    """Yield the last look of each planned study, and how often others grew."""
    for row in said.tables["looks"].rows:
        name, settled = row["experiment"], ""
        if not row["is_last"] or (row["n_looks"] is None and row["n_runs"] < 2):
            continue
        if row["n_looks"] is None:
            sentence = f"{name} grew in {row['n_runs']} runs without planned looks; no p-value is corrected for this"
            settled = "`stop_when_shown` in the experiment file, before the first trial"
        elif row["look"] == 0:
            sentence = f"{name} stops when a gain is shown, and nothing is claimed before its first look"
        else:
            p_value = "no p-value" if row["p_value"] is None else f"p = {row['p_value']:.2g}"
            sentence = (
                f"{name} has {row['n_looks']} planned looks; the last was number {row['look']}, at {row['n_tasks']} "
                f"tasks, with {p_value} for the gain of {row['agent']}; the level {row['level']:.2g} applies to "
                "every claim here"
            )
        keys = {key: str(row[key]) for key in spec_of("looks").keys}
        yield Finding(
            question=_LOOKS,
            benchmark="all",
            agent="",
            verdict="measured",
            wording=sentence,
            size="",
            settled_by=settled,
            table="looks",
            keys=keys,
        )


def _not_injected(
    said: _Said, benchmark: str, question: str, table: str, unknown: str, only: str | None = None
) -> Iterator[Finding]:
    """Yield that effects of late messages are unknown for the agents of a benchmark without injections."""
    for where, agent in said.agents():
        if where == benchmark and only in (None, agent):
            yield _absent(question, table, benchmark, agent, unknown.replace("{when}", "late"), None)


def _absent(question: str, table: str, benchmark: str, agent: str, wording: str, condition: str | None) -> Finding:
    """Return the finding that something is unknown for an agent that lacks a row which others have."""
    also = ", and under full, of the same tasks" if table == "losses" else ""
    return Finding(
        question=question,
        benchmark=benchmark,
        agent=agent,
        verdict="not known",
        wording=wording,
        size="",
        settled_by=f"trials of this agent under {condition}{also}" if condition else spec_of(table).needs,
        table=table,
        keys={},
    )


def _nothing(question: str, table: str, condition: str | None) -> Finding:
    """Return the finding that no trial answers a question."""
    both = "full and " if table == "losses" else ""
    under = f" under {both}{condition}" if condition else ""
    return Finding(
        question=question,
        benchmark="all",
        agent="",
        verdict="not known",
        wording=f"No trials{under} answer this",
        size="",
        settled_by=spec_of(table).needs,
        table=table,
        keys={},
    )


def _when(condition: str) -> str:
    return f"at {condition.removeprefix('inject_')} % of the trajectory"


def _estimate(row: Row, *, is_bare: bool = False) -> str:
    """Format a value with its unit (unless ``is_bare``) and its interval, or a remark that there is none."""
    if row["value"] is None or row["low"] is None:
        return _bare(row, is_bare=is_bare) + " (no interval)" * (row["value"] is not None)
    value, low, high = (number_in_unit(row["measure"], row[name]) for name in ("value", "low", "high"))
    return f"{value} [{low}, {high}]{'' if is_bare else _unit(row)}"


def _bare(row: Row, *, is_bare: bool = False) -> str:
    if row["value"] is None:
        return "unknown"
    return number_in_unit(row["measure"], row["value"]) + ("" if is_bare else _unit(row))


def _unit(row: Row) -> str:
    unit = measure_of(row["measure"]).unit
    plural = "" if row["value"] == 1 else "s"
    return {"": "", "pp": " percentage points", "actions": f" action{plural}"}.get(unit, f" {unit}")


def _are(count: int) -> str:
    return f"is {count}" if count == 1 else f"are {count}"


def _size(row: Row) -> str:
    parts: Sequence[tuple[int, str]] = ((row["n_clusters"], "task"), (row["n_trials"], "trial"))
    shown = [f"{n:,} {name}{'' if n == 1 else 's'}" for n, name in parts]
    return ", ".join([*shown, *([f"{row['n_missing']:,} missing"] if row["n_missing"] else [])])
