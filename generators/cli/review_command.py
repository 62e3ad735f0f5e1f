"""The command ``variants review``: a person reads variants on the terminal, and decides with single keys."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lhaw_record.generators.errors import GeneratorError
from lhaw_record.recorder.cli.arguments import STORE
from lhaw_record.recorder.cli.command import Command, argument, clear_errors
from lhaw_record.recorder.cli.output import say
from lhaw_record.recorder.sharing.address import store_name

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from lhaw_record.generators.prompts.diff import DiffSpan
    from lhaw_record.generators.reviewing.reviews import Outcomes, Reviewable, VariantOutcome
    from lhaw_record.generators.reviewing.session import ReviewSession
    from lhaw_record.recorder.events import FailedCheck
    from lhaw_record.recorder.events.judging import ReviewDecision
    from lhaw_record.recorder.reading.reader import Snapshot

_STYLES = {"same": "", "removed": "red strike", "added": "bold green"}
_TWO_COLUMNS = 100  # characters; on narrower terminals one column shows both prompts merged
_SCROLLS = {"j": 1, "k": -1, " ": 1}
_DECISIONS: "dict[str, ReviewDecision]" = {"a": "accepted", "r": "rejected", "e": "edited"}
_KEYS = "a accept   r reject   e edit   n note   s later   b back   j/k scroll   q quit"


def review_command(options: argparse.Namespace) -> int:
    """Show the variants that the reviewer has not decided about, one at a time, and record each decision."""
    import anyio

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise GeneratorError("variants review reads single keys: run it on a terminal, not in a pipe")
    with clear_errors("review", options.store):
        return anyio.run(_review, options)


async def _review(options: argparse.Namespace) -> int:
    from lhaw_record.generators.reviewing.reviews import outcomes_of, read_decisions, reviewable, to_review
    from lhaw_record.generators.reviewing.session import review_session

    async with review_session(options.store, options.reviewer) as session:
        items = reviewable(session.snapshot, options.benchmark, options.source)
        if not items:
            raise GeneratorError(_nothing(session.snapshot, options))
        waiting = to_review(items, read_decisions(session.snapshot), options.reviewer)
        if not waiting:
            say(
                f"{store_name(options.store)}: {len(items)} variants, "
                f"none that {options.reviewer} has not decided about"
            )
            return 0
        with _single_keys() as keys:
            decided = await Workbench(session, waiting, outcomes_of(options.store), keys).run()
    say(f"{store_name(options.store)}: {decided} decided, {len(waiting) - decided} left for {options.reviewer}")
    return 0


def _nothing(snapshot: "Snapshot", options: argparse.Namespace) -> str:
    """Say that a store has no such variants to review, and which benchmarks and experiments have some."""
    from lhaw_record.generators.reviewing.reviews import choices

    benchmarks, experiments = (", ".join(names) or "none" for names in choices(snapshot))
    return (
        f"{store_name(options.store)} has no such variants to review; benchmarks with variants: {benchmarks}; "
        f"experiments: {experiments}"
    )


class Workbench:
    """Shows variants one at a time and takes decisions about them by key.

    Args:
        session: Records the decisions.
        waiting: The variants to decide about, in order.
        outcomes: What their trials showed.
        keys: The terminal's keyboard.
    """

    def __init__(
        self, session: "ReviewSession", waiting: "Sequence[Reviewable]", outcomes: "Outcomes", keys: "Keyboard"
    ) -> None:
        from rich.console import Console

        self._session = session
        self._waiting = waiting
        self._outcomes = outcomes
        self._keys = keys
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._decided: dict[int, ReviewDecision] = {}
        self._began_s = time.monotonic()
        self._at = 0
        self._note: str | None = None
        self._message = ""

    async def run(self) -> int:
        """Show variants until all are decided or the reviewer stops. Return how many were decided."""
        with self._console.screen(hide_cursor=True):
            while self._at < len(self._waiting):
                if not await self._one(self._waiting[self._at]):
                    break
        return len(self._decided)

    async def _one(self, item: "Reviewable") -> bool:
        """Show a variant until the reviewer goes on to another one. Return whether there is more to show."""
        shown_at_s, top = time.monotonic(), 0
        body = _lines(self._console, panels(item, self._outcomes.get(item.variant_digest, ()), self._console.width))
        while True:
            page = max(1, self._console.height - 3)
            top = max(0, min(top, len(body) - page))
            self._draw(item, body[top : top + page], len(body) - top - page)
            key = await self._keys.read()
            self._message = ""
            if key == "q":
                return False
            if key in _SCROLLS:
                top += _SCROLLS[key] * (page - 2 if key == " " else 1)
            elif key == "s":
                return self._go(+1)
            elif key == "b":
                return self._go(-1)
            elif key == "n":
                self._note = self._keys.line("note: ") or None
            elif key in _DECISIONS and await self._decide(item, key, shown_at_s):
                self._decided[self._at] = _DECISIONS[key]
                return self._go(+1)

    def _go(self, by: int) -> bool:
        self._at, self._note = max(0, self._at + by), None
        return True

    async def _decide(self, item: "Reviewable", key: str, shown_at_s: float) -> bool:
        """Record the decision that a key stands for. Return False if the reviewer took it back."""
        from lhaw_record.generators.reviewing.messages import DecisionRequest

        prompt = None
        if key == "e":
            prompt = self._keys.edited(item.variant.prompt)
            try:
                item.check_edit(prompt)
            except GeneratorError as error:
                self._message = str(error) if prompt else "nothing was changed: the editor failed, or left no text"
                return False
            if not await self._agrees(item, prompt):
                return False
        reason = None if key == "a" else await self._reason()
        if key != "a" and reason is None:
            return False
        decision = DecisionRequest(
            variant_digest=item.variant_digest,
            decision=_DECISIONS[key],
            reason=reason,
            note=self._note,
            prompt=prompt,
            shown_s=round(time.monotonic() - shown_at_s, 1),
        )
        await self._session.decide(item, decision)
        return True

    async def _agrees(self, item: "Reviewable", prompt: str) -> bool:
        """Show an edited prompt and what the gate finds against it. Return whether the reviewer keeps it."""
        self._console.clear()
        shown = comparison(item.task.prompt, prompt, self._console.width)
        self._console.print(*shown, *findings(*item.findings(prompt)), sep="\n")
        self._console.print("y keep this prompt   any other key: discard it", style="reverse")
        return await self._keys.read() == "y"

    async def _reason(self) -> str | None:
        from lhaw_record.generators.reviewing.reviews import REASONS

        self._console.clear()
        for number, (name, meaning) in enumerate(REASONS.items(), start=1):
            self._console.print(f" {number}  {name}: {meaning}")
        self._console.print("the number of the reason   any other key: back", style="reverse")
        key = await self._keys.read()
        numbered = {str(number): name for number, name in enumerate(REASONS, start=1)}
        return numbered.get(key)

    def _draw(self, item: "Reviewable", lines: Sequence[str], below: int) -> None:
        hours = (time.monotonic() - self._began_s) / 3600
        rate = f"   {len(self._decided) / hours:.0f} an hour" if self._decided else ""
        head = (
            f" {item.variant.task_id}   {item.variant.severity or item.variant.origin}   "
            f"{self._at + 1} of {len(self._waiting)}{rate}"
        )
        note = f"   decided: {self._decided[self._at]}" if self._at in self._decided else ""
        note += f"   note: {self._note}" if self._note else ""
        self._console.clear()
        self._console.print(head + note, style="bold", no_wrap=True, overflow="ellipsis")
        for line in lines:
            self._console.file.write(line + "\n")
        first = self._message or (f"{below} more below" if below > 0 else "")
        self._console.print(
            " " + "   ".join(filter(None, (first, _KEYS))), style="reverse", end="", no_wrap=True, overflow="ellipsis"
        )


def panels(item: "Reviewable", outcomes: "Sequence[VariantOutcome]", width: int) -> "Iterator[RenderableType]":
    """Yield what a reviewer sees of a variant: both prompts, the segments, questions, the gate's findings, trials."""
    from rich.text import Text

    yield from comparison(item.task.prompt, item.variant.prompt, width)
    for segment in item.variant.segments:
        yield Text(f" removed {segment.dimension}/{segment.subdimension}: {segment.value}", style="cyan")
        if segment.decoy is not None:
            yield Text(f"   and put in its place: {segment.decoy}", style="cyan")
    if item.variant.environment_change is not None:
        yield Text(" the prompt is the task's own; the environment is changed", style="cyan")
    for group in item.variant.expected_questions:
        for question in group.questions:
            yield Text(f" asks: {question}")
    yield from findings(*item.findings())
    for row in outcomes:
        succeeded = f"{row.successes} of {row.trials} trials succeed"
        yield Text(f" {row.agent} under {row.condition}: {succeeded}", style="dim")


def findings(found: "Sequence[FailedCheck]", unjudged: str) -> "Iterator[RenderableType]":
    """Yield a line for each finding of the gate, or one that says that there are none, or why it cannot judge."""
    from rich.text import Text

    if unjudged:
        yield Text(f" the gate's rules cannot judge it: {unjudged}", style="dim")
    elif not found:
        yield Text(" the gate's rules find nothing; they do not judge how it reads", style="dim")
    for each in found:
        yield Text(f" gate, {each.check}: {each.message}", style="yellow")


def coloured(spans: "Iterable[DiffSpan]") -> "Text":
    """Return the text of spans, what was removed and what was added each in its colour."""
    from rich.text import Text

    return Text.assemble(*((span.text, _STYLES[span.kind]) for span in spans))


def comparison(original: str, rewritten: str, width: int) -> "Iterator[RenderableType]":
    """Yield two prompts side by side with the changes marked, or merged into one where the terminal is narrow."""
    from rich.table import Table
    from rich.text import Text

    from lhaw_record.generators.prompts.diff import marked

    spans = marked(original, rewritten)
    if width < _TWO_COLUMNS:
        yield coloured(spans)
    else:
        table = Table(box=None, padding=(0, 2, 0, 0), expand=True)
        table.add_column("full prompt", ratio=1)
        table.add_column("variant", ratio=1)
        left = [span for span in spans if span.kind != "added"]
        right = [span for span in spans if span.kind != "removed"]
        table.add_row(coloured(left), coloured(right))
        yield table
    yield Text()


def _lines(console: "Console", parts: "Iterator[RenderableType]") -> list[str]:
    with console.capture() as captured:
        console.print(*parts, sep="\n")
    return captured.get().rstrip("\n").split("\n")


class Keyboard:
    """The keys of a terminal, one at a time.

    Args:
        file_descriptor: The terminal.
        cooked: Its attributes in the usual mode, in which it reads whole lines.
    """

    def __init__(self, file_descriptor: int, cooked: list[Any]) -> None:
        self._file_descriptor = file_descriptor
        self._cooked = cooked
        self._typed = ""

    async def read(self) -> str:
        """Wait for a key. Keys that send several bytes, such as arrows, are empty; the end of input is ``q``."""
        import anyio.to_thread

        if not self._typed:
            read = await anyio.to_thread.run_sync(os.read, self._file_descriptor, 64, abandon_on_cancel=True)
            self._typed = read.decode(errors="replace") or "q"
        if self._typed.startswith("\x1b"):
            self._typed = ""
        key, self._typed = self._typed[:1], self._typed[1:]
        return "q" if key in ("\x03", "\x04") else key

    def line(self, question: str) -> str:
        """Ask for a line of text. Ctrl-C and Ctrl-D give an empty one."""
        with self._usual_mode(has_signals=False):
            try:
                text = input(f"\n{question}").strip()
            except EOFError:
                return ""
        return "" if "\x03" in text else text

    def edited(self, text: str) -> str:
        """Let the reviewer edit a text in their editor. Return it without the line end that editors add.

        As in git, an editor that fails changes nothing: the result is then empty, as it is if the text is not UTF-8.
        """
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        with tempfile.TemporaryDirectory() as folder, self._usual_mode(has_signals=True):
            path = Path(folder) / "prompt.txt"
            path.write_text(text + "\n", encoding="utf-8")
            done = subprocess.run(f'{editor} "{path}"', shell=True, check=False)  # noqa: S602  as git runs an editor
            try:
                return path.read_text(encoding="utf-8").removesuffix("\n") if done.returncode == 0 else ""
            except (OSError, UnicodeDecodeError):
                return ""

    @contextmanager
    def _usual_mode(self, *, has_signals: bool) -> Iterator[None]:
        """Read whole lines. Without signals Ctrl-C is a character: a signal would not end the waiting for a line."""
        import termios

        single = termios.tcgetattr(self._file_descriptor)
        usual = [*self._cooked]
        if not has_signals:
            usual[3] &= ~termios.ISIG
        termios.tcsetattr(self._file_descriptor, termios.TCSADRAIN, usual)
        try:
            yield
        finally:
            termios.tcsetattr(self._file_descriptor, termios.TCSADRAIN, single)


@contextmanager
def _single_keys() -> Iterator[Keyboard]:
    """Let the terminal send single keys, Ctrl-C among them, until the block ends."""
    import termios

    file_descriptor = sys.stdin.fileno()
    cooked = termios.tcgetattr(file_descriptor)
    single = termios.tcgetattr(file_descriptor)
    single[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
    termios.tcsetattr(file_descriptor, termios.TCSADRAIN, single)
    try:
        yield Keyboard(file_descriptor, cooked)
    finally:
        termios.tcsetattr(file_descriptor, termios.TCSADRAIN, cooked)


REVIEW = Command(
    name="review",
    help="read variants one at a time and accept, edit or reject them",
    description="Show the variants of a store that the reviewer has not decided about, one at a time: both prompts "
    "with the changes marked, the removed segments, the expected questions, the gate's findings and what trials "
    "showed. Single keys accept, edit or reject; each decision is recorded at once, and what other reviewers decided "
    "is not shown. Stop at any time, and go on later.",
    example="variants review stores/desk --reviewer anna",
    arguments=(
        STORE,
        argument("--reviewer", required=True, metavar="NAME", help="who reads; a name in lower case, such as anna"),
        argument("--benchmark", metavar="NAME", help="only variants of this benchmark"),
        argument("--from", dest="source", metavar="EXPERIMENT", help="only variants registered in this experiment"),
    ),
    function=review_command,
)
