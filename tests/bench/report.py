"""Results as terminal tables and as a page of the documentation."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from tests.bench.figures import Result

_HEADING = """\
# Benchmarks

<!-- Written by `{command}`; do not edit by hand. -->

Every figure is compared with a peer or given as a ratio from the same run, because figures of
different machines or days are not comparable. CPU time (of all threads) comes first, because other
programs disturb it least. Contenders alternate in three rounds, and each figure is the median.
`make bench` measures again; `make bench ARGS="commands --quick"` runs one benchmark quickly.
"""


def show(console: Console, machine: Mapping[str, str], results: Sequence[Result]) -> None:
    """Print tables on a terminal."""
    console.print("; ".join(f"{name}: {value}" for name, value in machine.items()), style="dim")
    for result in results:
        table = Table(title=result.title, title_justify="left", title_style="bold")
        table.add_column("")
        for column in result.columns:
            table.add_column(column, justify="right")
        for row in result.rows:
            table.add_row(row, *result.cells(row))
        console.print()
        console.print(table)
        for note in result.notes:
            console.print(f"  {note}", highlight=False)
        for target in result.targets:
            what, value, bound, verdict = target.cells
            style = "green" if target.met else "red"
            console.print(f"  {what}: {value}; target {bound}, {verdict}", style=style)


def as_markdown(
    machine: Mapping[str, str], date: str, command: str, results: Sequence[Result]
) -> str:
    """The page of the documentation."""
    return "\n".join(_page(machine, date, command, results))


def _page(
    machine: Mapping[str, str], date: str, command: str, results: Sequence[Result]
) -> Iterator[str]:
    yield _HEADING.format(command=command)
    yield from _table(("", ""), [("Measured", date), *machine.items()])
    yield "\n## Targets\n"
    targets = [target.cells for result in results for target in result.targets]
    yield from _table(("", "measured", "target", ""), targets)
    for result in results:
        yield f"\n## {result.title}\n\n{result.about}\n"
        rows = [(row, *result.cells(row)) for row in result.rows]
        yield from _table(("", *result.columns), rows)
        for note in result.notes:
            yield f"\n{note}"
    yield ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Format a table: text left-aligned, numbers right-aligned."""
    yield f"| {' | '.join(heads)} |"
    yield f"|---|{'--:|' * (len(heads) - 1)}" if len(heads) > 2 else "|---|---|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
