"""`fairwarning rollout ...`: host updates, a domain or a host at a time (E7)."""

from collections.abc import Callable
from pathlib import Path

import click

from fairwarning.cli import client, completion, follow, options, show
from fairwarning.cli.blocks import Block, FieldList, OutputTable, ProgressBar, StyledText
from fairwarning.cli.durations import WholeSeconds
from fairwarning.cli.follow import ServiceTime
from fairwarning.cli.show import Json, moment

_LOOKED_AT = 1000  # events among which a rollout's own are sought
_STYLES = {"Running": "cyan", "Paused": "yellow", "Aborted": "red", "Done": "green"}

_EPILOG = show.examples(
    "rollout start --kind reboot --wait", "rollout status", "rollout pause ID", "rollout resume ID"
)
_ID = click.argument("id_", metavar="ID", shell_complete=completion.rollouts)


@click.group("rollout", epilog=_EPILOG)
def command() -> None:
    """Update hosts: the machines of a scope one update domain after another, with notice."""


@command.command(
    "start",
    epilog=show.examples(
        "rollout start",
        "rollout start web/0 db --kind reboot --wait",
        "rollout start --set web --batch 2 --halt-percent 10",
        "rollout start --by-host --host rack1-07 --kind redeploy",
    ),
)
@options.data
@click.argument("scopes", metavar="[SCOPE]...", nargs=-1, shell_complete=completion.scopes)
@click.option(
    "--set",
    "sets",
    metavar="NAME",
    multiple=True,
    shell_complete=completion.sets,
    help="The scopes of this scale set; as often as you like. No scope and no set: everything.",
)
@click.option(
    "--kind",
    type=click.Choice(["freeze", "reboot", "redeploy"]),
    help="What happens to machines.  [default: freeze]",
)
@click.option("--batch", type=click.IntRange(1), help="So many scopes side by side.")
@click.option("--by-host", is_flag=True, help="A host at a time, not an update domain.")
@click.option("--host", "hosts", multiple=True, help="Only machines on this host; repeatable.")
@click.option(
    "--seconds",
    "duration_seconds",
    type=WholeSeconds(),
    help="How long it takes a machine, as machines are told: 5, 90s, 2m.",
)
@click.option(
    "--halt-percent",
    type=click.IntRange(0, 100),
    help="Pause when more than so many of a hundred machines have failed.",
)
@click.option("--id", help="What to call it.")
@show.waits
@show.as_json
def start(*, data: Path, wait: bool, as_json: bool, **given: object) -> None:
    """Begin a rollout over these scopes, or over everything."""
    unsaid = (None, False, ())
    body = {key: value for key, value in given.items() if not any(value is one for one in unsaid)}
    with options.errors_reported():
        rollout = client.ask(data, "POST", "/api/rollouts", body)
        if not as_json:
            click.echo(f"{rollout['id']}: started, {rollout['kind']} of {_count(rollout)}")
        if wait:
            rollout = _until_over(data, rollout["id"], silent=as_json)
    if as_json:
        show.print_result(rollout, as_json=True)
    if wait:
        _tell_end(rollout, silent=as_json)


@command.command(
    "status",
    epilog=show.examples("rollout status", "rollout status ID --watch", "rollout status --json"),
)
@options.data
@click.argument("id_", metavar="[ID]", required=False, shell_complete=completion.rollouts)
@show.as_json
@show.watched
def status(data: Path, id_: str | None, *, as_json: bool, watch: bool) -> None:
    """How far a rollout is, or all of them."""
    with options.errors_reported():
        if id_ is None:
            follow.listing(data, "rollouts", _table, as_json=as_json, watch_=watch)
        elif watch and as_json:
            follow.watch(data, _reader(data, id_), lambda *_: (), as_json=True, over=_ends)
        elif watch:
            _until_over(data, id_, silent=False, wait=False)
        else:
            rollout = _reader(data, id_)()
            show.print_result(rollout, _facts(rollout), _bar(rollout), as_json=as_json)


def _table(rollouts: list[Json]) -> list[Block]:
    rows = [
        (
            one["id"],
            one["kind"],
            StyledText(one["status"], _STYLES.get(one["status"], "")),
            _counts(one),
        )
        for one in rollouts
    ]
    table = OutputTable(("rollout", "kind", "status", "machines"), rows, whole="rollout")
    return show.first_rows(table, "rollouts")


def _facts(rollout: Json) -> FieldList:
    halt = rollout["halt_percent"]
    return FieldList(
        {
            "rollout": rollout["id"],
            "kind": rollout["kind"],
            "by": rollout["actor"],
            "status": StyledText(rollout["status"], _STYLES.get(rollout["status"], "")),
            "why": rollout["why"],
            "started": moment(rollout["started_at"]),
            "ended": moment(rollout["ended_at"]),
            "lanes": f"{rollout['lanes']}, {rollout['batch']} at once",
            "halts": "" if halt is None else f"when more than {halt}% have failed",
        }
    )


# --- Deciding ------------------------------------------------------------------------------------


def _add(verb: str, about: str) -> None:
    @command.command(
        verb, help=about, epilog=show.examples(f"rollout {verb} ID", f"rollout {verb} ID --json")
    )
    @options.data
    @_ID
    @show.as_json
    def decide(data: Path, id_: str, *, as_json: bool) -> None:
        with options.errors_reported():
            rollout = client.ask(data, "POST", f"/api/rollouts/{client.part(id_)}/{verb}", {})
        text = f"{rollout['id']}: {rollout['status'].lower()}, {_counts(rollout)}"
        show.print_result(rollout, text, as_json=as_json)


_add("pause", "Begin nothing new; what was announced goes on.")
_add("resume", "Go on where a pause stopped it.")
_add("abort", "End it; what is only announced is cancelled.")


# --- Following -----------------------------------------------------------------------------------


def _reader(data: Path, id_: str) -> Callable[[], Json]:
    return lambda: dict(client.ask(data, "GET", f"/api/rollouts/{client.part(id_)}"))


def _until_over(data: Path, id_: str, *, silent: bool, wait: bool = True) -> Json:
    """The rollout once it needs nobody to wait any more; Ctrl-C leaves it running."""
    read_rollout = _reader(data, id_)

    def read() -> tuple[Json, list[Json]]:
        rollout = read_rollout()
        found = [] if silent else client.listed(data, "events", _LOOKED_AT)
        return rollout, [one for one in found if one["operation"].startswith(f"{id_}/")]

    try:
        rollout, _ = follow.follow(
            data,
            read,
            lambda value, now: _progress(*value, now),
            over=lambda value: _ends(value[0]),
            concerns=lambda line: (
                line["about"] == f"Rollout {id_}" or line["operation"].startswith(f"{id_}/")
            ),
            silent=silent,
        )
    except KeyboardInterrupt:
        click.echo(f"It goes on without you: `fairwarning rollout status {id_} --watch`", err=True)
        raise SystemExit(options.FAILED if wait else 0) from None
    return rollout


def _ends(rollout: Json) -> bool:
    """It is over, or has stopped by itself and waits for somebody."""
    return bool(rollout["ended_at"]) or (rollout["status"] == "Paused" and bool(rollout["why"]))


def _progress(rollout: Json, events: list[Json], now: ServiceTime) -> list[Block]:
    blocks = [_bar(rollout)]
    if rollout["why"]:
        blocks.append(StyledText(f"  {rollout['why']}", "yellow"))
    return blocks + show.pending(events, now.at) + follow.still(now, waiting=not _ends(rollout))


def _bar(rollout: Json) -> Block:
    over = rollout["done"] + rollout["failed"] + rollout["skipped"]
    return ProgressBar(over, rollout["machines"], f"{rollout['status']}: {_counts(rollout)}")


def _count(rollout: Json) -> str:
    count = rollout["machines"]
    return "1 machine" if count == 1 else f"{count} machines"


def _counts(rollout: Json) -> str:
    more = "".join(f", {rollout[what]} {what}" for what in ("failed", "skipped") if rollout[what])
    return f"{rollout['done']} of {rollout['machines']} done{more}"


def _tell_end(rollout: Json, *, silent: bool) -> None:
    """Exit with 1 unless it has reached every machine."""
    if rollout["status"] == "Done" and not rollout["failed"]:
        return
    if not silent:
        told = {
            "Done": f"{rollout['failed']} machines have failed",
            "Paused": f"it paused by itself; `fairwarning rollout resume {rollout['id']}` or abort",
        }
        click.echo(f"Error: {told.get(rollout['status'], 'it was aborted')}", err=True)
    raise SystemExit(options.FAILED)
