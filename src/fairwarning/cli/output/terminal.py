"""Prints blocks on a terminal with rich, which is slow to import."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

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


def _console() -> Console:
    """Return a console that prints text from the service literally, without markup."""
    return Console(highlight=False, markup=False, emoji=False)


def put(blocks: Iterable[Block]) -> None:
    """Print blocks. Text is not folded, so that a command in it can be copied."""
    screen = _console()
    for block in blocks:
        screen.print(_render(block), soft_wrap=isinstance(block, str))


@contextmanager
def live_display() -> Iterator[Callable[[Sequence[Block]], None]]:
    """Provide a function that shows blocks in place of those that it has shown before."""
    with Live(console=_console(), auto_refresh=False) as live:
        yield lambda blocks: live.update(Group(*map(_render, blocks)), refresh=True)


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
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, width=_TIME)
    grid.add_column(no_wrap=True, width=_DID)
    grid.add_column(overflow="fold")
    at, did, rest = parts
    grid.add_row(Text(at, "dim"), Text(did, style), _text(rest))
    _console().print(grid)
