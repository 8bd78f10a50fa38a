"""`fairwarning rollout ...`: host updates, one update domain or host at a time (E7)."""

from collections.abc import Callable

import click

from fairwarning.cli import client, completion, follow, options, show
from fairwarning.cli.blocks import Block, FieldList, OutputTable, ProgressBar, StyledText
from fairwarning.cli.durations import WholeSeconds
from fairwarning.cli.follow import ServiceTime
from fairwarning.cli.show import Json, moment
from fairwarning.cli.target import ServiceTarget

_EVENTS_READ = 1000  # searched for the events of a rollout
_STYLES = {"Running": "cyan", "Paused": "yellow", "Aborted": "red", "Done": "green"}

_EPILOG = show.examples(
    "rollout start --kind reboot --wait", "rollout status", "rollout pause ID", "rollout resume ID"
)
_ID = click.argument("id_", metavar="ID", shell_complete=completion.rollouts)


@click.group("rollout", epilog=_EPILOG)
def command() -> None:
    """Roll out host updates, one update domain at a time, with notice."""


@command.command(
    "start",
    epilog=show.examples(
        "rollout start",
        "rollout start web/0 db --kind reboot --wait",
        "rollout start --set web --batch 2 --halt-percent 10",
        "rollout start --by-host --host rack1-07 --kind redeploy",
    ),
)
@click.argument("scopes", metavar="[SCOPE]...", nargs=-1, shell_complete=completion.scopes)
@click.option(
    "--set",
    "sets",
    metavar="NAME",
    multiple=True,
    shell_complete=completion.sets,
    help="Include the scopes of this scale set; repeatable. Default: every scope.",
)
@click.option(
    "--kind",
    type=click.Choice(["freeze", "reboot", "redeploy"]),
    help="Impact on the machines.  [default: freeze]",
)
@click.option("--batch", type=click.IntRange(1), help="Scopes to update in parallel.")
@click.option("--by-host", is_flag=True, help="Update one host at a time, not one update domain.")
@click.option("--host", "hosts", multiple=True, help="Only machines on this host; repeatable.")
@click.option(
    "--seconds",
    "duration_seconds",
    type=WholeSeconds(),
    help="Expected duration per machine, announced in the event: 5, 90s, 2m.",
)
@click.option(
    "--halt-percent",
    type=click.IntRange(0, 100),
    help="Pause when more than this percentage of machines have failed.",
)
@click.option("--id", help="Id of the rollout.  [default: generated]")
@show.waits
@show.as_json
@options.service
def start(*, service: ServiceTarget, wait: bool, as_json: bool, **settings: object) -> None:
    """Start a rollout over the given scopes, or over all scopes."""
    unset = (None, False, ())
    body = {
        key: value
        for key, value in settings.items()
        if not any(value is default for default in unset)
    }
    with options.errors_reported():
        rollout = client.ask(service, "POST", "/api/rollouts", body)
        if not as_json:
            click.echo(f"{rollout['id']}: started, {rollout['kind']} of {_count(rollout)}")
        if wait:
            rollout = _wait_for_end(service, rollout["id"], silent=as_json)
    if as_json:
        show.print_result(rollout, as_json=True)
    if wait:
        _exit_if_failed(service, rollout, silent=as_json)


@command.command(
    "status",
    epilog=show.examples("rollout status", "rollout status ID --watch", "rollout status --json"),
)
@click.argument("id_", metavar="[ID]", required=False, shell_complete=completion.rollouts)
@show.as_json
@show.watched
@options.service
def status(service: ServiceTarget, id_: str | None, *, as_json: bool, watch: bool) -> None:
    """Show the progress of a rollout, or list all rollouts."""
    with options.errors_reported():
        if id_ is None:
            follow.listing(service, "rollouts", _table, as_json=as_json, watch_=watch)
        elif watch and as_json:
            follow.watch(
                service, _reader(service, id_), lambda *_: (), as_json=True, over=_has_stopped
            )
        elif watch:
            _wait_for_end(service, id_, silent=False, wait=False)
        else:
            rollout = _reader(service, id_)()
            show.print_result(rollout, _fields(rollout), _bar(rollout), as_json=as_json)


def _table(rollouts: list[Json]) -> list[Block]:
    rows = [
        (
            rollout["id"],
            rollout["kind"],
            StyledText(rollout["status"], _STYLES.get(rollout["status"], "")),
            _counts(rollout),
        )
        for rollout in rollouts
    ]
    table = OutputTable(("rollout", "kind", "status", "machines"), rows, whole="rollout")
    return show.first_rows(table, "rollouts")


def _fields(rollout: Json) -> FieldList:
    halt = rollout["halt_percent"]
    return FieldList(
        {
            "rollout": rollout["id"],
            "kind": rollout["kind"],
            "actor": rollout["actor"],
            "status": StyledText(rollout["status"], _STYLES.get(rollout["status"], "")),
            "reason": rollout["why"],
            "started": moment(rollout["started_at"]),
            "ended": moment(rollout["ended_at"]),
            "lanes": f"{rollout['lanes']}, {rollout['batch']} in parallel",
            "pauses": "" if halt is None else f"when more than {halt}% of machines have failed",
        }
    )


# --- Pause, resume and abort ---------------------------------------------------------------------


def _add(verb: str, about: str) -> None:
    @command.command(
        verb, help=about, epilog=show.examples(f"rollout {verb} ID", f"rollout {verb} ID --json")
    )
    @_ID
    @show.as_json
    @options.service
    def decide(service: ServiceTarget, id_: str, *, as_json: bool) -> None:
        with options.errors_reported():
            rollout = client.ask(service, "POST", f"/api/rollouts/{client.quoted(id_)}/{verb}", {})
        text = f"{rollout['id']}: {rollout['status'].lower()}, {_counts(rollout)}"
        show.print_result(rollout, text, as_json=as_json)


_add("pause", "Pause a rollout. Events that are already scheduled still happen.")
_add("resume", "Resume a paused rollout.")
_add("abort", "Abort a rollout. Cancels its scheduled events.")


# --- Progress ------------------------------------------------------------------------------------


def _reader(service: ServiceTarget, id_: str) -> Callable[[], Json]:
    return lambda: dict(client.ask(service, "GET", f"/api/rollouts/{client.quoted(id_)}"))


def _wait_for_end(service: ServiceTarget, id_: str, *, silent: bool, wait: bool = True) -> Json:
    """Return the rollout once it has stopped; show progress. Ctrl-C leaves it running."""
    read_rollout = _reader(service, id_)

    def read() -> tuple[Json, list[Json]]:
        rollout = read_rollout()
        events = [] if silent else client.list_all(service, "events", _EVENTS_READ)
        return rollout, [event for event in events if event["operation"].startswith(f"{id_}/")]

    try:
        rollout, _ = follow.follow(
            service,
            read,
            lambda value, now: _progress(service, *value, now),
            over=lambda value: _has_stopped(value[0]),
            concerns=lambda line: (
                line["about"] == f"Rollout {id_}" or line["operation"].startswith(f"{id_}/")
            ),
            silent=silent,
        )
    except KeyboardInterrupt:
        click.echo("Stopped waiting; the rollout continues. To watch it again, run:", err=True)
        click.echo(f"  {service.command_line('rollout status --watch', id_)}", err=True)
        raise SystemExit(options.FAILED if wait else 0) from None
    return rollout


def _has_stopped(rollout: Json) -> bool:
    """Return whether the rollout has ended, or has paused itself and needs an operator."""
    return bool(rollout["ended_at"]) or (rollout["status"] == "Paused" and bool(rollout["why"]))


def _progress(
    service: ServiceTarget, rollout: Json, events: list[Json], now: ServiceTime
) -> list[Block]:
    blocks = [_bar(rollout)]
    if rollout["why"]:
        blocks.append(StyledText(f"  {rollout['why']}", "yellow"))
    hint = follow.stopped_clock_hint(service, now, waiting=not _has_stopped(rollout))
    return blocks + show.pending(events, now.at) + hint


def _bar(rollout: Json) -> Block:
    over = rollout["done"] + rollout["failed"] + rollout["skipped"]
    return ProgressBar(over, rollout["machines"], f"{rollout['status']}: {_counts(rollout)}")


def _count(rollout: Json) -> str:
    count = rollout["machines"]
    return "1 machine" if count == 1 else f"{count} machines"


def _counts(rollout: Json) -> str:
    more = "".join(
        f", {rollout[state]} {state}" for state in ("failed", "skipped") if rollout[state]
    )
    return f"{rollout['done']} of {rollout['machines']} done{more}"


def _exit_if_failed(service: ServiceTarget, rollout: Json, *, silent: bool) -> None:
    """Exit with 1 unless the rollout is done and no machine failed."""
    if rollout["status"] == "Done" and not rollout["failed"]:
        return
    if not silent:
        id_ = rollout["id"]
        resume, abort = (
            service.command_line(f"rollout {verb}", id_) for verb in ("resume", "abort")
        )
        messages = {
            "Done": f"rollout {id_}: {rollout['failed']} machines failed",
            "Paused": f"rollout {id_} was paused automatically; run `{resume}` or `{abort}`",
        }
        message = messages.get(rollout["status"], f"rollout {id_} was aborted")
        click.echo(f"Error: {message}", err=True)
    raise SystemExit(options.FAILED)
