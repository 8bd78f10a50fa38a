"""Prints blocks as plain text, for pipes and files: each row of a table on a line of its own."""

from collections.abc import Iterable, Sequence

from fairwarning.cli.output.blocks import Block, FieldList, OutputTable, ProgressBar, StyledText
from fairwarning.core.printable import printable

_GAP = "  "
_BAR = 30  # columns


def lines(blocks: Iterable[Block]) -> Iterable[str]:
    """Return the lines of these blocks."""
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
