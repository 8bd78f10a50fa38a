"""Puts blocks on a terminal with rich, in colour where there is any; loaded when people look on."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

import rich.progress_bar
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from fairwarning.cli.blocks import Block, FieldList, OutputTable, ProgressBar, StyledText

_BAR = 30  # columns
_TIME = len("10:00:00Z")
_DID = len("OperationAccepted")


def console() -> Console:
    """Where people look. What the service tells is text and nothing else: no markup in it."""
    return Console(highlight=False, markup=False, emoji=False)


def put(screen: Console, blocks: Iterable[Block]) -> None:
    """Print them."""
    for block in blocks:
        screen.print(_drawn(block))


class TerminalDisplay:
    """Blocks that change: in place on a terminal, else one after another."""

    def __init__(self) -> None:
        self._console = console()
        self._shown: list[Block] | None = None
        self._live = Live(console=self._console, auto_refresh=False)
        self.ticks = self._console.is_terminal
        """Whether to show it again when only time has passed."""

    def __enter__(self) -> Self:
        if self.ticks:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.ticks:
            self._live.stop()

    def show(self, blocks: Sequence[Block]) -> None:
        """These from now on."""
        if self.ticks:
            self._live.update(Group(*map(_drawn, blocks)), refresh=True)
        elif list(blocks) != self._shown:
            put(self._console, blocks)
        self._shown = list(blocks)


def _drawn(block: Block) -> RenderableType:
    if isinstance(block, OutputTable):
        return _table(block)
    if isinstance(block, FieldList):
        return _facts(block)
    if isinstance(block, ProgressBar):
        return _bar(block)
    return _text(block)


def _text(given: str | StyledText) -> Text:
    """Only what can be seen: a name or an error must not move the cursor."""
    text, style = given if isinstance(given, StyledText) else (given, "")
    seen = "".join(one if one.isprintable() or one == "\n" else "?" for one in text)
    return Text(seen, style, overflow="fold")


def _table(table: OutputTable) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for heading in table.headings:
        grid.add_column(heading, overflow="fold", no_wrap=heading == table.whole)
    for row in table.rows:
        grid.add_row(*map(_text, row))
    return grid


def _facts(facts: FieldList) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.about.items():
        if str(value):
            grid.add_row(name, _text(value))
    return grid


def _bar(bar: ProgressBar) -> Grid:
    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=_BAR)
    grid.add_column(overflow="fold")
    drawn = rich.progress_bar.ProgressBar(max(bar.total, 1), bar.done, _BAR)
    grid.add_row(drawn, _text(bar.text))
    return grid


def line(parts: tuple[str, str, str], style: str) -> None:
    """One line of a journal; what does not fit stands below, in the third column."""
    screen = console()
    if not screen.is_terminal:
        print(*(_text(part).plain for part in parts), flush=True)  # noqa: T201  (never folded)
        return
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, width=_TIME)
    grid.add_column(no_wrap=True, width=_DID)
    grid.add_column(overflow="fold")
    at, did, rest = parts
    grid.add_row(Text(at, "dim"), Text(did, style), _text(rest))
    screen.print(grid)
