"""Command output as plain values: text, tables, field lists, progress bars.

`terminal` draws them; `text_lines` writes them to pipes and files. Nothing here imports rich:
`--json` and `--help` stay fast.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fairwarning.core.printable import printable

_GAP = "  "
_BAR = 30  # columns


class StyledText(NamedTuple):
    """Text with a colour; the colour carries no information of its own."""

    text: str
    style: str


class OutputTable(NamedTuple):
    """Rows under headings. Long cells are folded, except in the column `whole`."""

    headings: tuple[str, ...]
    rows: Sequence[Sequence[str | StyledText]]
    whole: str = ""


class FieldList(NamedTuple):
    """Named values of one object, one per line; empty values are left out."""

    fields: Mapping[str, str | StyledText]


class ProgressBar(NamedTuple):
    """A progress bar with a text beside it."""

    done: int
    total: int
    text: str


Block = str | StyledText | OutputTable | FieldList | ProgressBar


# --- Plain text ----------------------------------------------------------------------------------


def text_lines(blocks: Iterable[Block]) -> Iterable[str]:
    """Return blocks as lines; each row of a table is a line of its own."""
    for block in blocks:
        if isinstance(block, OutputTable):
            yield from _aligned([block.headings, *block.rows])
        elif isinstance(block, FieldList):
            rows = [(name, value) for name, value in block.fields.items() if text_of(value)]
            yield from _aligned(rows)
        elif isinstance(block, ProgressBar):
            filled = _BAR * min(block.done, block.total) // max(block.total, 1)
            yield f"{'━' * filled:{_BAR}} {printable(block.text)}"
        else:
            yield printable(text_of(block), keep="\n")


def text_of(cell: str | StyledText) -> str:
    """Return the text of a cell, without its style."""
    return cell.text if isinstance(cell, StyledText) else cell


def _aligned(rows: Sequence[Sequence[str | StyledText]]) -> Iterable[str]:
    texts = [[printable(text_of(cell).replace("\n", "; ")) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        padded = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield _GAP.join(padded).rstrip()
