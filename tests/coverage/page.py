"""The page docs/coverage.md: the worst of the simulated designs, by kind and number of tasks."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.coverage.simulation import HIGHEST_ERROR, LOWEST_COVERAGE, Coverage
from tests.coverage.studies import KINDS, SETTINGS, SIZES

_MOST_NAMED = 20

_INTRODUCTION = """# How often the intervals contain the true value

`make coverage` writes this page from {studies} studies of each design of `python -m tests.coverage --grid full`.

A design describes many simulated studies with a known true value. The nominal level is 0.95. Intervals must contain the
true value in at least {lowest} of the studies, and tests at the level 0.05 may give at most {highest} false positives.
If the exact 95 % interval (Clopper and Pearson) of a design's share is not wholly within the limit, four times as many
new studies are simulated, and only these count. A design then *misses* if its share is beyond the limit. It is *open*
if only a part of that interval is beyond the limit. There are {designs} designs: {missed} and {is_open}. Kinds marked
"not promised" show where a method fails.

The studies are drawn without code of the engine. Each task has its own success rate, from a beta distribution with mean
p and intraclass correlation ICC. There are 1 or 3 agents and 1, 7, or 1 to 7 variants of each task. Their trials are
drawn with the task's rate, or all variants of an agent have the same value, as under `full`. Levels are symmetric in p,
so their p is at most 0.5. Bootstraps had {draws} draws and tests had {flips} permutations; the tables use more. Floors,
prior weights and the room for one more task were chosen with these designs. Most of the designs have the same effect in
every task. Only the level 0.95 was studied, and intervals may be longer than necessary. The test suite draws studies in
other ways (logit-normal rates) and checks the engine against scipy and plain numpy.

The table shows the worst design of each kind: its coverage or, for kinds without an effect (and "one effect in two
dimensions"), its share of p-values below 0.05. The last column shows the worst of the designs with the fewest tasks
(`--format csv` prints all designs). Studies without an interval do not count. Studies with a doubtful interval
(`one_task_has_N_pct`, `rare_effect`) do not count either, unless one task has half of the variants. A design is not
judged if under 5 % of its studies are left.
"""


def page(found: Sequence[Coverage], studies: int) -> str:
    """Render the page of some simulated designs."""
    return "\n".join(_lines(found, studies))


def _lines(found: Sequence[Coverage], studies: int) -> Iterator[str]:
    judged = [each for each in found if each.is_met is not None]
    missed = [each for each in judged if not each.is_met]
    is_open = [each for each in judged if each.is_met and not each.is_certain]
    yield _INTRODUCTION.format(
        lowest=LOWEST_COVERAGE,
        highest=HIGHEST_ERROR,
        draws=SETTINGS.draws,
        flips=SETTINGS.permutations,
        studies=f"{studies:,}",
        designs=f"{len(judged):,}",
        missed=_counted(missed, "misses"),
        is_open=_counted(is_open, "is open", "are open"),
    )
    yield "| kind | `method` | worst (tasks) | fewest tasks |"
    yield "|---|---|---|---|"
    for name, kind in KINDS.items():
        cells = [each for each in (judged if kind.is_promised else found) if each.design.kind == name]
        if cells:
            fewest = min(each.design.tasks for each in cells)
            first = [each for each in cells if each.design.tasks == fewest]
            worst = _cell(cells, kind.is_test) + ("" if kind.is_promised else ", not promised")
            yield f"| {kind.title} | {kind.method} | {worst} | {_cell(first, kind.is_test)} |"
    if missed:
        yield f"\nMissed{_listed(missed)}."
    yield ""


def _counted(found: Sequence[Coverage], one: str, several: str = "miss") -> str:
    return f"{len(found) or 'none'} {one if len(found) < 2 else several}"


def _listed(found: Sequence[Coverage]) -> str:
    named = [_named(each) for each in found[:_MOST_NAMED]]
    return (": " + "; ".join(named) if found else "") + ("; …" if len(found) > _MOST_NAMED else "")


def _cell(found: Sequence[Coverage], is_test: bool) -> str:
    """Return the worst share of some designs, and with how many tasks."""
    shares = [(each.share, each.design.tasks) for each in found]
    share, tasks = max(shares) if is_test else min(shares)
    return f"{share:.3f} ({tasks})"


def _named(found: Coverage) -> str:
    design = found.design
    agents = f", {design.agents} agents" if design.agents > 1 else ""
    copied = ", copied" if design.is_copied else ""
    variants = SIZES.get(design.variants, design.variants)
    place = f"{design.kind}, {design.tasks} tasks x {variants}, ICC {design.correlation}, p {design.mean}"
    low, high = found.bounds
    return f"{found.share:.3f} ({low:.3f} to {high:.3f}, {found.studies:,} studies) at {place}{agents}{copied}"


def read_section(path: Path, title: str) -> list[dict[str, str]]:
    """Return the rows of the table under a heading of the page."""
    sections = path.read_text(encoding="utf-8").split("\n## ")
    (section,) = (each for each in sections if each.removeprefix("# ").startswith(title))
    head, _, *rows = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line[:1] == "|"
    )
    return [dict(zip(head, row, strict=True)) for row in rows]


def write_section(path: Path, title: str, text: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Put a table under a heading of the page, in place of the one that was there."""
    columns = tuple(rows[0])
    lines = [f"## {title}", "", text, "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join('' if row[name] is None else str(row[name]) for name in columns)} |" for row in rows]
    before, *sections = path.read_text(encoding="utf-8").rstrip().split("\n\n## ")
    kept = [section for section in sections if section.splitlines()[0] != title]
    whole = "\n\n## ".join([before, *kept]) + "\n\n" + "\n".join(lines) + "\n"
    path.write_text(whole, encoding="utf-8")
