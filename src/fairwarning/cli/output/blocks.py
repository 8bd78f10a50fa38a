"""Command output as plain values: text, tables, field lists, progress bars. `terminal` draws them.

Nothing here imports rich, so `--json` and `--help` stay fast.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


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
