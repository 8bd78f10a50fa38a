"""What all `list` commands share: columns, order, how many rows, and the form of the output (O14).

A terminal gets the first rows. A pipe, a file and `--all` get every row.
"""

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple

import click

from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import follow, show
from fairwarning.cli.output.blocks import Block, FieldList, OutputTable, StyledText, text_of
from fairwarning.cli.output.show import Json
from fairwarning.cli.parameters import options
from fairwarning.cli.parameters.parameter_types import Integer

ROWS = 200  # that a terminal gets; a fleet may have a million machines
_FORMS = "table", "wide", "json", "jsonl", "csv", "name"
_DIGITS = re.compile("([0-9]+)", re.ASCII)

Cell = str | StyledText


class Column(NamedTuple):
    """A column of a list. A wide one is shown by `-o wide` or if it is named."""

    name: str
    cell: Callable[[Json], Cell]
    wide: bool = False


class Listing(NamedTuple):
    """A collection of the API, and how it is shown; `key` is the member that names an item."""

    collection: str
    plural: str
    columns: tuple[Column, ...]
    key: str = "name"
    whole: str = ""  # the column that is never folded
    notes: Callable[[Sequence[Json]], list[Block]] = lambda _: []
    live: bool = True  # whether it can be watched


class ListOptions(NamedTuple):
    """The options of a list command."""

    form: str
    columns: tuple[str, ...]
    sort: str
    limit: int | None
    all_rows: bool
    watch: bool = False


def list_options(listing: Listing) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of a list; the command gets them as `wanted`."""
    names = ", ".join(column.name for column in listing.columns)
    added = (
        click.option(
            "-o",
            "--output",
            "form",
            type=click.Choice(_FORMS),
            help="Form of the output.  [default: table]",
        ),
        show.as_json,
        click.option(
            "--columns",
            callback=_split(listing),
            help=f"Columns to show, separated by commas: {names}.",
        ),
        click.option(
            "--sort", default="", metavar="COLUMN", help="Column to sort by; -COLUMN reverses."
        ),
        click.option(
            "--limit",
            type=Integer(1),
            help=f"Show at most this many.  [default: {ROWS} on a terminal, else all]",
        ),
        click.option(
            "--all", "all_rows", is_flag=True, help=f"Show all, not only the first {ROWS}."
        ),
        *([show.watched] if listing.live else []),
    )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_options(*, form: str | None, as_json: bool, **values: Any) -> None:  # noqa: ANN401  (the command's own)
            if as_json and form not in {None, "json"}:
                raise click.UsageError(f"--json and --output {form} exclude each other")
            own = {name: values.pop(name) for name in ListOptions._fields[1:] if name in values}
            chosen = "json" if as_json else form or "table"
            _check_sort(listing, own["sort"])
            command(wanted=ListOptions(chosen, **own), **values)

        for option in reversed(added):
            with_options = option(with_options)
        return with_options

    return decorate


def fields(listing: Listing, item: Json, others: Mapping[str, Cell]) -> FieldList:
    """Return an item as `show` prints it: its columns and others, which may replace a column."""
    return FieldList({**{column.name: column.cell(item) for column in listing.columns}, **others})


def _split(listing: Listing) -> Callable[..., tuple[str, ...]]:
    known = [column.name for column in listing.columns]

    def parse(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
        chosen = tuple(name.strip() for name in (text or "").split(",") if name.strip())
        for name in chosen:
            if name not in known:
                raise click.BadParameter(f"there is no column {name!r}; use {', '.join(known)}")
        return chosen

    return parse


def _check_sort(listing: Listing, sort: str) -> None:
    known = [column.name for column in listing.columns]
    if sort and sort.removeprefix("-") not in known:
        raise click.UsageError(f"--sort: there is no column {sort!r}; use {', '.join(known)}")


def add_list(
    group: click.Group,
    listing: Listing,
    about: str,
    *examples: str,
    filters: Sequence[Callable[..., Callable[..., None]]] = (),
) -> None:
    """Add the command that lists a collection of the API; the service applies the filters."""

    def list_items(service: ServiceTarget, wanted: ListOptions, **query: str | None) -> None:
        if listing.live:
            show_list(service, listing, wanted, **query)
            return
        path = client.api_path(listing.collection.replace("_", "-"))
        items = client.ask(service, "GET", path)[listing.collection]
        show_items(listing, wanted, items)

    command: Callable[..., None] = list_items
    for decorate in (options.service, list_options(listing), *reversed(filters)):
        command = decorate(command)
    group.command("list", help=about, epilog=show.examples(*examples))(command)


# --- Reading and printing ------------------------------------------------------------------------


def show_list(
    service: ServiceTarget, listing: Listing, wanted: ListOptions, **query: str | None
) -> None:
    """Print a list, once or at each change."""

    def read() -> client.ListRead:
        result = client.read_list(service, listing.collection, rows_to_read(wanted), **query)
        return _selected(listing, wanted, result)

    if wanted.watch:
        _watch(service, listing, wanted, read)
    else:
        _print(listing, wanted, read())


def show_items(listing: Listing, wanted: ListOptions, items: Sequence[Json]) -> None:
    """Print a list that is read at once."""
    result = client.ListRead(list(items), len(items))
    _print(listing, wanted, _selected(listing, wanted, result))


def rows_to_read(wanted: ListOptions) -> int | None:
    """Return how many items the output needs; None for all."""
    return None if wanted.sort else _most(wanted)


def _selected(listing: Listing, wanted: ListOptions, result: client.ListRead) -> client.ListRead:
    return result._replace(items=_ordered(listing, wanted.sort, result.items)[: _most(wanted)])


def _print(listing: Listing, wanted: ListOptions, result: client.ListRead) -> None:
    if wanted.form not in {"table", "wide"}:
        _print_data(listing, wanted, result.items)
        return
    table, *notes = _blocks(listing, wanted, result)
    (show.print_blocks if result.items else show.note)(table)
    show.note(*notes)


def _watch(
    service: ServiceTarget,
    listing: Listing,
    wanted: ListOptions,
    read: Callable[[], client.ListRead],
) -> None:
    if wanted.form in {"json", "jsonl"}:
        follow.watch(service, lambda: read().items, lambda *_: (), as_json=True)
    elif wanted.form in {"table", "wide"}:
        follow.watch(
            service, read, lambda result, _: _blocks(listing, wanted, result), as_json=False
        )
    else:
        raise click.UsageError(f"--watch cannot be used with --output {wanted.form}")


def _most(wanted: ListOptions) -> int | None:
    """Return how many rows to show; None for all."""
    if wanted.limit or wanted.all_rows:
        return wanted.limit
    return ROWS if wanted.form in {"table", "wide"} and sys.stdout.isatty() else None


def _ordered(listing: Listing, sort: str, items: list[Json]) -> list[Json]:
    if not sort:
        return items
    (column,) = (each for each in listing.columns if each.name == sort.removeprefix("-"))
    return sorted(
        items, key=lambda item: _natural(text_of(column.cell(item))), reverse=sort.startswith("-")
    )


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a sort key that orders web_2 before web_10: the longer number is the larger one."""
    key = []
    for place, part in enumerate(_DIGITS.split(text.lower())):
        number = part.lstrip("0") if place % 2 else ""  # every second part is a number
        key.append((len(number), number or part))
    return key


def _columns(listing: Listing, wanted: ListOptions, *, every: bool = False) -> list[Column]:
    if wanted.columns:
        by_name = {column.name: column for column in listing.columns}
        return [by_name[name] for name in wanted.columns]
    every = every or wanted.form == "wide"
    return [column for column in listing.columns if every or not column.wide]


def _blocks(listing: Listing, wanted: ListOptions, result: client.ListRead) -> list[Block]:
    if not result.items:
        return [f"No {listing.plural} found."]
    columns = _columns(listing, wanted)
    rows = [[column.cell(item) for column in columns] for item in result.items]
    headings = tuple(column.name for column in columns)
    table = OutputTable(headings, rows, whole=listing.whole)
    return [table, *_footer(listing, wanted, result), *listing.notes(result.items)]


def _footer(listing: Listing, wanted: ListOptions, result: client.ListRead) -> list[Block]:
    shown = len(result.items)
    if result.total is None or shown >= result.total or not sys.stdout.isatty():
        return []
    hint = "" if wanted.limit else "; --all shows every one"
    return [f"{shown:,} of {result.total:,} {listing.plural}{hint}."]


def _print_data(listing: Listing, wanted: ListOptions, items: Sequence[Json]) -> None:
    """Print for programs: every item, complete unless columns are named."""
    columns = _columns(listing, wanted, every=True)
    if wanted.form == "name":
        _echo(str(item[listing.key]) for item in items)
    elif wanted.form == "csv":
        rows = ([text_of(column.cell(item)) for column in columns] for item in items)
        buffer = io.StringIO()
        headings = [column.name for column in columns]
        csv.writer(buffer, lineterminator="\n").writerows([headings, *rows])
        click.echo(buffer.getvalue(), nl=False)
    else:
        chosen = [_chosen(columns, item) for item in items] if wanted.columns else list(items)
        _echo(map(json.dumps, chosen) if wanted.form == "jsonl" else [json.dumps(chosen)])


def _chosen(columns: Sequence[Column], item: Json) -> Json:
    return {column.name: text_of(column.cell(item)) for column in columns}


def _echo(lines: Iterable[str]) -> None:
    click.echo("".join(f"{line}\n" for line in lines), nl=False)
