"""`fairwarning event ...`: list, approve, cancel, explain and watch events (O7)."""

import json
import sys
from collections.abc import Iterator
from functools import partial
from operator import itemgetter

import click

from fairwarning.cli.commands import listing
from fairwarning.cli.commands.listing import Column, Listing, ListOptions
from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import (
    confirm,
    follow,
    show,
)
from fairwarning.cli.output.blocks import FieldList, OutputTable
from fairwarning.cli.output.confirm import Confirmation, Plan
from fairwarning.cli.output.show import Json, moment
from fairwarning.cli.parameters import completion, filters, options
from fairwarning.cli.parameters.command_classes import SuggestingGroup
from fairwarning.core.printable import printable
from fairwarning.core.times import parse_date, spoken

_EPILOG = show.examples(
    "event list", "event approve ID", "event explain ID", "event watch --machine web_0"
)
_ID = click.argument("id_", metavar="ID", shell_complete=completion.events)
_FINAL = {"Ended", "Cancelled", "Lapsed"}  # facts that end an event
_STYLES = {
    "Scheduled": "yellow",
    "Delivered": "cyan",
    "ApprovalRefused": "yellow",
    "Approved": "green",
    "PeerApproved": "green",
    "Started": "bold yellow",
    "ImpactBegun": "yellow",
    "ImpactFailed": "bold red",
    "Cancelled": "magenta",
    "Ended": "dim",
}
_MACHINE = click.option(
    "--machine", help="Only events of this machine.", shell_complete=completion.machines
)


@click.group("event", cls=SuggestingGroup, epilog=_EPILOG)
def command() -> None:
    """List, approve, cancel, explain and watch events.

    `event list` shows the ids. That of an active event can be abbreviated to its first 4 or more
    characters.
    """


def _not_before(event: Json) -> str:
    return "" if event["status"] == "Started" else moment(event["not_before"])  # as in the document


_EVENTS = Listing(
    "events",
    "events",
    (
        Column("event", itemgetter("id")),
        Column("schedule", show.summary),
        Column("machines", lambda event: ", ".join(event["resources"])),
        Column("type", itemgetter("type"), wide=True),
        Column("status", itemgetter("status"), wide=True),
        Column("scope", itemgetter("scope"), wide=True),
        Column("source", itemgetter("source"), wide=True),
        Column("created", lambda event: moment(event["created_at"]), wide=True),
        Column("not before", _not_before, wide=True),
        Column("approved", itemgetter("approved_by"), wide=True),
        Column("operation", itemgetter("operation"), wide=True),
    ),
    key="id",
    whole="event",
)


@command.command(
    "list",
    epilog=show.examples(
        "event list",
        "event list --machine web_0",
        "event list --scope web/0 --watch",
        "event list --unapproved -o name",
        "event list --over --limit 20",
        "event list --type Reboot --sort -created -o csv",
    ),
)
@_MACHINE
@filters.SCOPE
@filters.SET
@filters.TYPE
@filters.STATUS
@filters.SOURCE
@click.option("--rollout", help="Only of this rollout.", shell_complete=completion.rollouts)
@filters.NOT_POLLED
@filters.flag("--unapproved", "Only scheduled ones that nobody has approved.")
@filters.TEXT
@click.option("--over", is_flag=True, help="List events that are over, newest first.")
@listing.list_options(_EVENTS)
@options.service
def list_(service: ServiceTarget, wanted: ListOptions, *, over: bool, **query: str | None) -> None:
    """List active events, in the order of their start."""
    if over and query["status"]:
        raise click.UsageError("--over and --status exclude each other")
    if query["rollout"] and not over:  # the journal has events of rollouts that are gone
        client.ask(
            service, "GET", client.api_path("rollouts", query["rollout"])
        )  # or it is unknown
    listing.show_list(service, _EVENTS, wanted, **query | ({"status": "Over"} if over else {}))


@command.command("show", epilog=show.examples("event show ID", "event show ID --json"))
@_ID
@show.as_json
@options.service
def show_(service: ServiceTarget, id_: str, *, as_json: bool) -> None:
    """Show an event."""
    path = client.api_path("events", client.full_id(service, "event", id_))
    event = client.ask(service, "GET", path)
    blocks = [] if as_json else [_fields(event, follow.ServiceClock(service).now())]
    show.print_result(event, *blocks, as_json=as_json)


def _fields(event: Json, now: follow.ServiceTime) -> FieldList:
    scheduled = event["status"] == "Scheduled"
    left = f" ({show.until(event['not_before'], now.at)})" if scheduled else ""
    duration = event["duration_seconds"]
    more = {
        "not before": _not_before(event) + left,
        "duration": f"{duration} seconds" if duration >= 0 else "",
        "description": event["description"],
        "waiting for": ", ".join(event["awaits"]),
    }
    return listing.fields(_EVENTS, event, more)


# --- Approve and cancel --------------------------------------------------------------------------


def _add(verb: str, done: str, about: str) -> None:
    examples = show.examples(f"event {verb} ID", f"event {verb} ID ID --yes")

    @command.command(verb, help=about, epilog=examples)
    @click.argument(
        "ids", metavar="ID...", nargs=-1, required=True, shell_complete=completion.events
    )
    @confirm.options
    @show.as_json
    @options.service
    def decide(
        service: ServiceTarget, ids: tuple[str, ...], confirmation: Confirmation, *, as_json: bool
    ) -> None:
        full_ids = [
            client.full_id(service, "event", id_) for id_ in ids
        ]  # all, before the first request
        if confirmation.dry_run or len(full_ids) > 1:
            count = show.counted(len(full_ids), "event")
            plan = partial(_plan, service, full_ids)
            confirm.ask(confirmation, f"{verb.title()} {count}?", plan, as_json=as_json)
        tried = confirm.ask_each(
            full_ids,
            lambda id_: client.ask(service, "POST", client.api_path("events", id_, verb), {}),
            lambda _, event: _outcome(event, done),
            silent=as_json,
        )
        if as_json:
            click.echo(json.dumps(tried.answers))
        tried.exit_if_failed()


_add(
    "approve",
    "approved",
    "Approve events, so that they start now, or when their maintenance windows open; asks first if"
    " there are several. Does what a machine's approval does.",
)
_add(
    "cancel",
    "cancelled",
    "Cancel scheduled events; asks first if there are several. They do not happen and are removed.",
)


def _plan(service: ServiceTarget, ids: list[str]) -> Plan:
    events = [client.ask(service, "GET", client.api_path("events", id_)) for id_ in ids]
    now = follow.ServiceClock(service).now().at
    rows = [
        (event["id"], event["type"], ", ".join(event["resources"]), _notice_left(event, now))
        for event in events
    ]
    return Plan([OutputTable(("event", "type", "machines", "notice left"), rows)], events)


def _notice_left(event: Json, now: float) -> str:
    left = parse_date(event["not_before"]) - now if event["status"] == "Scheduled" else 0
    return spoken(left) if left > 0 else "none"


def _outcome(event: Json, done: str) -> str:
    waiting = ""
    if event["awaits"]:
        waiting = f"; waiting for {', '.join(event['awaits'])}"
    elif event["approved_by"] and event["status"] == "Scheduled" and event["opens_at"]:
        waiting = f"; starts when its maintenance window opens, {moment(event['opens_at'])}"
    return f"{event['type']} of {', '.join(event['resources'])}: {done}{waiting}"


# --- Explain and watch ---------------------------------------------------------------------------


@command.command("explain", epilog=show.examples("event explain ID", "event explain ID --json"))
@_ID
@show.as_json
@options.service
def explain(service: ServiceTarget, id_: str, *, as_json: bool) -> None:
    """Show the history of an event. Lists notifications, approvals and durations."""
    show.explain(service, "events", client.full_id(service, "event", id_), as_json=as_json)


@command.command(
    "watch",
    epilog=show.examples("event watch", "event watch --machine web_0", "event watch ID --json"),
)
@click.argument("ids", metavar="[ID]...", nargs=-1, shell_complete=completion.events)
@_MACHINE
@filters.SCOPE
@show.as_json
@options.service
def watch(
    service: ServiceTarget,
    ids: tuple[str, ...],
    machine: str | None,
    scope: str | None,
    *,
    as_json: bool,
) -> None:
    """Watch changes as they happen. Stops on Ctrl-C, or when all the given events are over."""
    stream = follow.EventStream(service)
    if machine:
        place = client.ask(service, "GET", client.api_path("machines", machine))
        if machine != place["name"]:  # SCOPE/NAME
            machine, scope = place["name"], scope or place["scope"]
        if scope not in {None, place["scope"]}:
            raise click.UsageError(f"{machine} is in the scope {place['scope']}, not in {scope}")
    elif scope:
        client.ask(service, "GET", client.api_path("scopes", scope))  # refuses an unknown one
    events = {client.full_id(service, "event", id_) for id_ in ids}
    active = {
        id_
        for id_ in events
        if client.ask(service, "GET", client.api_path("events", id_))["status"] != "Over"
    }
    click.echo("Watching for changes. Press Ctrl-C to stop.", err=True)
    try:
        for line in _lines(stream, active, endless=not ids):
            if _is_shown(line, events, machine, scope):
                _print_line(line, as_json=as_json)
    except KeyboardInterrupt:
        return


def _is_shown(line: Json, ids: set[str], machine: str | None, scope: str | None) -> bool:
    """Return whether a line is about these; without any, all are shown, as are clock changes."""
    if "clock" in line:
        return True
    return (
        (not ids or line["event"] in ids)
        and (not machine or machine in line["machines"])
        and (not scope or line["about"] == f"Scope {scope}")
    )


def _print_line(line: Json, *, as_json: bool) -> None:
    """Print one line: as JSON, or as text with colour on a terminal."""
    if as_json:
        click.echo(json.dumps(line))
        return
    parts = _clock(line["clock"]) if "clock" in line else _line_columns(line)
    if not sys.stdout.isatty():
        click.echo(printable(" ".join(parts)))
        return
    from fairwarning.cli.output import terminal  # noqa: PLC0415  (rich is slow to import)

    terminal.line(parts, _STYLES.get(parts[1], ""))


def _clock(clock: Json) -> tuple[str, str, str]:
    return clock["now"].partition("T")[2], "ClockMoved", show.pace(clock)


def _line_columns(line: Json) -> tuple[str, str, str]:
    """Return the time, the fact and the details of a line."""
    subject = ", ".join(line["machines"]) or line["about"]
    by = f" by {line['actor']}" if line["actor"] not in {"", subject} else ""
    why = f": {line['detail']}" if line["detail"] not in {"", line["actor"]} else ""
    event = f"; event {line['event']}" if line["event"] else ""
    return line["at"].partition("T")[2], line["type"], f"{subject}{by}{why}{event}"


def _lines(stream: follow.EventStream, active: set[str], *, endless: bool) -> Iterator[Json]:
    while endless or active:
        for message in stream.take(None):
            if message.name == client.CLOCK:
                yield {"clock": message.data}
            if message.name != client.LINE:
                continue
            yield message.data
            if message.data["type"] in _FINAL:
                active.discard(message.data["event"])
