"""Command output as plain values: text, tables, field lists, progress bars. `drawing` draws them.

Nothing here imports rich, so `--json` and `--help` stay fast.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class StyledText(NamedTuple):
    """Text with a colour that says no more than its words do."""

    text: str
    style: str


class OutputTable(NamedTuple):
    """Rows under headings; a column of names to type is never cut, and `whole` is never folded."""

    headings: tuple[str, ...]
    rows: Sequence[Sequence[str | StyledText]]
    whole: str = ""


class FieldList(NamedTuple):
    """What is known of one thing, a line each; what is empty is left out."""

    about: Mapping[str, str | StyledText]


class ProgressBar(NamedTuple):
    """How much of something is over."""

    done: int
    total: int
    text: str


Block = str | StyledText | OutputTable | FieldList | ProgressBar
