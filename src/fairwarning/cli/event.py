"""`fairwarning event ...`: notices: see them, decide on them, follow and explain them (O7)."""

import json
from collections.abc import Iterator
from pathlib import Path

import click

from fairwarning.cli import client, completion, explanation, follow, journal, options, show
from fairwarning.cli.blocks import Block, FieldList
from fairwarning.cli.show import Json, moment
from fairwarning.core.errors import NotFound

_SHORTEST = 4  # characters of an id that is not typed out
_WHOLE = 36

_EPILOG = show.examples(
    "event list", "event approve 3F2A", "event explain 3F2A", "event watch --machine web_0"
)
_ID = click.argument("id_", metavar="ID", shell_complete=completion.events)
_IDS = click.argument(
    "ids", metavar="ID...", nargs=-1, required=True, shell_complete=completion.events
)
_MACHINE = click.option(
    "--machine", help="Only of this machine.", shell_complete=completion.machines
)
_SCOPE = click.option("--scope", help="Only of this scope.", shell_complete=completion.scopes)


@click.group("event", epilog=_EPILOG)
def command() -> None:
    """Notices of what is to happen to machines.

    The id of an event that is not over may be shortened to its first characters, 4 or more.
    """


@command.command(
    "list",
    epilog=show.examples(
        "event list", "event list --machine web_0", "event list --scope web/0 --watch"
    ),
)
@options.data
@_MACHINE
@_SCOPE
@show.as_json
@show.watched
def list_(
    data: Path, machine: str | None, scope: str | None, *, as_json: bool, watch: bool
) -> None:
    """Every event that is not over."""
    with options.errors_reported():
        follow.listing(
            data, "events", _table, as_json=as_json, watch_=watch, machine=machine, scope=scope
        )


def _table(found: list[Json]) -> list[Block]:
    return show.first_rows(show.events(found), "events")


@command.command("show", epilog=show.examples("event show 3F2A", "event show 3F2A --json"))
@options.data
@_ID
@show.as_json
def show_(data: Path, id_: str, *, as_json: bool) -> None:
    """Everything about one event."""
    with options.errors_reported():
        event = client.ask(data, "GET", _path(data, id_))
        blocks = [] if as_json else [_facts(event, follow.ServiceClock(data).now())]
    show.print_result(event, *blocks, as_json=as_json)


def _facts(event: Json, now: follow.ServiceTime) -> FieldList:
    waits = event["status"] == "Scheduled"
    left = f" ({show.until(event['not_before'], now.at)})" if waits else ""
    duration = event["duration_seconds"]
    return FieldList(
        {
            "event": event["id"],
            "what": event["type"],
            "status": event["status"],
            "machines": ", ".join(event["resources"]),
            "scope": event["scope"],
            "source": event["source"],
            "created": moment(event["created_at"]),
            "not before": moment(event["not_before"]) + left,
            "lasts": f"{duration} seconds" if duration >= 0 else "",
            "about": event["description"],
            "approved by": event["approved_by"],
            "awaits": ", ".join(event["awaits"]),
            "operation": event["operation"],
        }
    )


def _path(data: Path, begun: str) -> str:
    """Where the event is whose id is this, or begins so."""
    return f"/api/events/{client.part(_whole(data, begun))}"


def _whole(data: Path, begun: str) -> str:
    """The id that begins so, of a live event; one that is over has to be named in full."""
    if len(begun) >= _WHOLE:
        return begun.upper()
    if len(begun) < _SHORTEST:
        raise click.UsageError(f"{begun!r} is too short: give {_SHORTEST} characters of an id")
    live: list[str] = [event["id"] for event in client.listed(data, "events")]
    found = [one for one in live if one.startswith(begun.upper())]
    if not found:
        text = f"no live event begins with {begun!r}; `fairwarning event list` shows them"
        raise NotFound("UnknownEvent", text)
    if len(found) > 1:
        raise click.UsageError(f"several events begin with {begun!r}: {', '.join(found[:5])}")
    return found[0]


# --- Deciding ------------------------------------------------------------------------------------


@command.command(
    "approve", epilog=show.examples("event approve 3F2A", "event approve 3F2A 91CC --json")
)
@options.data
@_IDS
@show.as_json
def approve(data: Path, ids: tuple[str, ...], *, as_json: bool) -> None:
    """Let what was announced happen now, as a machine may."""
    _decide(data, ids, "approve", as_json=as_json)


@command.command(
    "cancel", epilog=show.examples("event cancel 3F2A", "event cancel 3F2A 91CC --json")
)
@options.data
@_IDS
@show.as_json
def cancel(data: Path, ids: tuple[str, ...], *, as_json: bool) -> None:
    """Call off what was announced. It will not happen, and the event is gone."""
    _decide(data, ids, "cancel", as_json=as_json)


def _decide(data: Path, ids: tuple[str, ...], verb: str, *, as_json: bool) -> None:
    decided = []
    with options.errors_reported():
        for path in [_path(data, one) for one in ids]:  # all of them are known, or nothing is done
            event = client.ask(data, "POST", f"{path}/{verb}", {})
            decided.append(event)
            if not as_json:
                click.echo(_outcome(event, verb))
    if as_json:
        click.echo(json.dumps(decided))


def _outcome(event: Json, verb: str) -> str:
    done = {"approve": "approved", "cancel": "cancelled"}[verb]
    awaits = f"; it waits for {', '.join(event['awaits'])}" if event["awaits"] else ""
    return f"{event['type']} of {', '.join(event['resources'])}: {done}{awaits}"


# --- Following -----------------------------------------------------------------------------------


@command.command("explain", epilog=show.examples("event explain 3F2A", "event explain 3F2A --json"))
@options.data
@_ID
@show.as_json
def explain(data: Path, id_: str, *, as_json: bool) -> None:
    """Tell the story of an event. Who was told, who approved, what took how long."""
    with options.errors_reported():
        told = client.ask(data, "GET", f"{_path(data, id_)}/explain")
    show.print_result(told, *([] if as_json else explanation.blocks(told)), as_json=as_json)


@command.command(
    "watch",
    epilog=show.examples("event watch", "event watch --machine web_0", "event watch 3F2A --json"),
)
@options.data
@click.argument("ids", metavar="[ID]...", nargs=-1, shell_complete=completion.events)
@_MACHINE
@_SCOPE
@show.as_json
def watch(
    data: Path, ids: tuple[str, ...], machine: str | None, scope: str | None, *, as_json: bool
) -> None:
    """Follow what happens, until Ctrl-C. With IDs, only until these events are over."""
    with options.errors_reported():
        changes = follow.EventStream(data)
        awaited = {_whole(data, one) for one in ids}
        chosen = journal.LineFilter(events=frozenset(awaited), machine=machine, scope=scope)
        awaited -= {one for one in awaited if _is_over(data, one)}
        click.echo("Following what happens; Ctrl-C ends it.", err=True)
        try:
            for line in _lines(changes, awaited, endless=not ids):
                if chosen.holds(line):
                    journal.tell(line, as_json=as_json)
        except KeyboardInterrupt:
            return


def _is_over(data: Path, event: str) -> bool:
    return bool(client.ask(data, "GET", f"/api/events/{client.part(event)}")["status"] == "Over")


def _lines(changes: follow.EventStream, awaited: set[str], *, endless: bool) -> Iterator[Json]:
    while endless or awaited:
        for message in changes.take(None):
            if message.name == "clock":
                yield {"clock": message.data}
                continue
            yield message.data
            if message.data["type"] in journal.LEFT:
                awaited.discard(message.data["event"])
