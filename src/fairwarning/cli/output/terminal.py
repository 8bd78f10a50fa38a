"""Prints blocks with rich. Imported only for text output, because rich is slow to import."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

import rich.progress_bar
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from fairwarning.cli.output.blocks import Block, FieldList, OutputTable, ProgressBar, StyledText
from fairwarning.core.printable import printable

_BAR = 30  # columns
_TIME = len("10:00:00Z")
_DID = len("OperationAccepted")


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints text from the service literally, without markup."""
    return Console(highlight=False, markup=False, emoji=False, stderr=stderr)


def put(screen: Console, blocks: Iterable[Block]) -> None:
    """Print blocks. Text is not folded, so that a command in it can be copied."""
    for block in blocks:
        screen.print(_render(block), soft_wrap=isinstance(block, str))


class TerminalDisplay:
    """Shows blocks that change: in place on a terminal, else one version after another."""

    def __init__(self, *, stderr: bool) -> None:
        self._console = console(stderr=stderr)
        self._shown: list[Block] | None = None
        self._live = Live(console=self._console, auto_refresh=False)
        self.ticks = self._console.is_terminal and not stderr
        """Whether to redraw when only time has passed."""

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
        """Replace the blocks on display."""
        if self.ticks:
            self._live.update(Group(*map(_render, blocks)), refresh=True)
        elif list(blocks) != self._shown:
            put(self._console, blocks)
        self._shown = list(blocks)


def _render(block: Block) -> RenderableType:
    if isinstance(block, OutputTable):
        return _table(block)
    if isinstance(block, FieldList):
        return _fields(block)
    if isinstance(block, ProgressBar):
        return _bar(block)
    return _text(block)


def _text(value: str | StyledText) -> Text:
    text, style = value if isinstance(value, StyledText) else (value, "")
    return Text(printable(text, keep="\n"), style, overflow="fold")


def _table(table: OutputTable) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for heading in table.headings:
        grid.add_column(heading, overflow="fold", no_wrap=heading == table.whole)
    for row in table.rows:
        grid.add_row(*map(_text, row))
    return grid


def _fields(field_list: FieldList) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in field_list.fields.items():
        if str(value):
            grid.add_row(name, _text(value))
    return grid


def _bar(bar: ProgressBar) -> Grid:
    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=_BAR)
    grid.add_column(overflow="fold")
    rendered = rich.progress_bar.ProgressBar(max(bar.total, 1), bar.done, _BAR)
    grid.add_row(rendered, _text(bar.text))
    return grid


def line(parts: tuple[str, str, str], style: str) -> None:
    """Print one journal line; long text is folded within the third column."""
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
