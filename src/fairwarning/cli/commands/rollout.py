"""`fairwarning rollout ...`: host updates, one update domain or host at a time (E7)."""

from collections.abc import Callable
from operator import itemgetter

import click

from fairwarning.cli.commands import listing
from fairwarning.cli.commands.listing import Column, Listing, add_list
from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import confirm, errors, follow, show
from fairwarning.cli.output.blocks import Block, FieldList, ProgressBar, StyledText
from fairwarning.cli.output.confirm import Confirmation, Plan
from fairwarning.cli.output.follow import ServiceTime
from fairwarning.cli.output.show import Json, moment
from fairwarning.cli.parameters import completion, filters, options
from fairwarning.cli.parameters.command_classes import SuggestingGroup
from fairwarning.cli.parameters.filters import Decorator
from fairwarning.cli.parameters.parameter_types import WHOLE_SECONDS, Integer
from fairwarning.core import limits
from fairwarning.core.model import RolloutStatus

_SENTENCES = 5  # shown while waiting
_MOST_FAILURES = 10  # that the service names
_STYLES = {"Running": "cyan", "Paused": "yellow", "Aborted": "red", "Done": "green"}

_EPILOG = show.examples(
    "rollout list",
    "rollout pause kernel-update",
    "rollout resume kernel-update",
    "rollout start --set web --kind reboot --wait",
)
_ID = click.argument("id_", metavar="ID", shell_complete=completion.rollouts)


@click.group("rollout", cls=SuggestingGroup, epilog=_EPILOG, renamed={"show": "status"})
def command() -> None:
    """Roll out host updates, one update domain at a time, with notice."""


@command.command(
    "start",
    epilog=show.examples(
        "rollout start",
        "rollout start web/0 db --kind reboot --wait",
        "rollout start --set web --batch 2 --halt-percent 10",
        "rollout start --kind redeploy --dry-run",
    ),
)
@click.argument("scopes", metavar="[SCOPE]...", nargs=-1, shell_complete=completion.scopes)
@click.option(
    "--set",
    "sets",
    metavar="NAME",
    multiple=True,
    shell_complete=completion.sets,
    help="Include the scopes of this scale set; repeatable.  [default: every scope]",
)
@click.option(
    "--kind",
    type=click.Choice(["freeze", "reboot", "redeploy"]),
    help="Impact on the machines.  [default: freeze]",
)
@click.option(
    "--batch",
    type=Integer(1),
    help=f"Scopes to update in parallel.  [default: {limits.ROLLOUT_BATCH}]",
)
@click.option("--by-host", is_flag=True, help="Update one host at a time, not one update domain.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Only machines on this host; repeatable.  [default: every host]",
)
@click.option(
    "--duration",
    "duration_seconds",
    type=WHOLE_SECONDS,
    help="Expected duration per machine, announced in the event: 5, 90s, 2m.  [default: unknown]",
)
@options.renamed("--seconds", "--duration")
@click.option(
    "--halt-percent",
    type=Integer(0, 100),
    help="Pause when more than this percentage of machines have failed.  [default: never]",
)
@click.option("--id", help="Id of the rollout.  [default: generated]")
@confirm.options
@show.waits
@show.as_json
@options.service
def start(
    *,
    service: ServiceTarget,
    confirmation: Confirmation,
    wait: bool,
    as_json: bool,
    **settings: object,
) -> None:
    """Start a rollout over the given scopes, or over all scopes.

    Over more than one scope it shows its plan and asks first.
    """
    unset = (None, False, ())
    body = {
        key: value
        for key, value in settings.items()
        if not any(value is default for default in unset)
    }
    _confirm_start(service, confirmation, body, as_json=as_json)
    rollout = client.ask(service, "POST", "/api/rollouts", body)
    if not as_json:
        click.echo(f"{rollout['id']}: started, {rollout['kind']} of {_count(rollout)}")
    if wait:
        rollout = _wait_for_end(service, rollout["id"], silent=as_json)
    if as_json:
        show.print_result(rollout, as_json=True)
    if wait:
        _exit_if_failed(service, rollout, silent=as_json)


def _confirm_start(
    service: ServiceTarget, confirmation: Confirmation, body: Json, *, as_json: bool
) -> None:
    if confirmation.yes and not confirmation.dry_run:
        return
    plan = client.ask(service, "POST", "/api/rollouts/plan", body)
    if plan["scopes"] > 1 or confirmation.dry_run:
        question = f"Start the rollout over {plan['scopes']} scopes?"
        blocks = _plan(plan)
        confirm.ask(confirmation, question, lambda: Plan(blocks, plan), as_json=as_json)


def _plan(plan: Json) -> list[Block]:
    more = plan["scopes_not_polled"] - len(plan["not_polled"])
    named = ", ".join(plan["not_polled"]) + (f" and {more} more" if more else "")
    unpolled = f"{plan['scopes_not_polled']} scopes: {named}" if named else "none"
    return [
        FieldList(
            {
                "impact": plan["kind"],
                "machines": str(plan["machines"]),
                "scopes": f"{plan['scopes']}, {plan['batch']} at a time",
                "steps": str(plan["steps"]),
                "ends": f"{moment(plan['earliest_end'])} if all approve at once,"
                f" {moment(plan['latest_end'], plan['earliest_end'])} if none does",
                "windows": _windows(plan),
                "no notice": unpolled,
            }
        )
    ]


def _windows(plan: Json) -> str:
    """What comes on top of the time at which a rollout ends."""
    if plan["steps_without_window"]:
        steps = plan["steps_without_window"]
        return f"{steps} steps will never begin: theirs are never open together"
    scopes = plan["scopes_with_windows"]
    return f"{scopes} scopes to wait for, which comes on top" if scopes else ""


def _status(rollout: Json) -> StyledText:
    return StyledText(rollout["status"], _STYLES.get(rollout["status"], ""))


def _counts(rollout: Json) -> str:
    more = "".join(
        f", {rollout[state]} {state}" for state in ("failed", "skipped") if rollout[state]
    )
    return f"{rollout['done']} of {rollout['machines']} done{more}"


_ROLLOUTS = Listing(
    "rollouts",
    "rollouts",
    (
        Column("rollout", itemgetter("id")),
        Column("kind", itemgetter("kind")),
        Column("status", _status),
        Column("machines", _counts),
        Column("started", lambda rollout: moment(rollout["started_at"]), wide=True),
        Column("ended", lambda rollout: moment(rollout["ended_at"]), wide=True),
        Column("actor", itemgetter("actor"), wide=True),
        Column("reason", itemgetter("why"), wide=True),
    ),
    key="id",
    whole="rollout",
)


add_list(
    command,
    _ROLLOUTS,
    "List rollouts.",
    "rollout list",
    "rollout list --sort -started",
    "rollout list -o json",
    filters=[filters.one_of("--status", RolloutStatus, "Only with this status.")],
)


@command.command(
    "status",
    epilog=show.examples("rollout status kernel-update", "rollout status kernel-update --watch"),
)
@_ID
@show.as_json
@show.watched
@options.service
def show_(service: ServiceTarget, id_: str, *, as_json: bool, watch: bool) -> None:
    """Show the progress of a rollout, and what it waits for."""
    id_ = client.full_id(service, "rollout", id_)
    if watch and as_json:
        follow.watch(service, _reader(service, id_), lambda *_: (), as_json=True, over=_has_stopped)
    elif watch:
        _wait_for_end(service, id_, silent=False, wait=False)
    else:
        rollout = _reader(service, id_)()
        blocks = (_fields(rollout), _bar(rollout), *_outlook(rollout))
        show.print_result(rollout, *blocks, as_json=as_json)


def _fields(rollout: Json) -> FieldList:
    halt = rollout["halt_percent"]
    more = {
        "estimate": _estimate(rollout),
        "lanes": f"{rollout['lanes']}, {rollout['batch']} in parallel",
        "pauses": "" if halt is None else f"when more than {halt}% of machines have failed",
    }
    return listing.fields(_ROLLOUTS, rollout, more)


def _estimate(rollout: Json) -> str:
    if not rollout["estimated_end"]:
        return ""
    end = moment(rollout["estimated_end"])
    return f"ends {end} at {rollout['machines_per_hour']:.3g} machines an hour"


def _outlook(rollout: Json) -> list[Block]:
    """Return what failed, then what the rollout waits for."""
    lines: list[Block] = [
        StyledText(f"failed: {failure['machine']} in {failure['scope']}: {failure['error']}", "red")
        for failure in rollout["failures"]
    ]
    more = rollout["failed"] - len(rollout["failures"])
    if more > 0 and len(lines) >= _MOST_FAILURES:  # fewer: late reports took the others back
        lines.append(StyledText(f"failed: {more} more", "red"))
    return [*lines, *(f"waits for {sentence}" for sentence in rollout["waits_for"])]


# --- Pause, resume and abort ---------------------------------------------------------------------


def _add(verb: str, about: str, *, asks: bool = False) -> None:
    asking: Decorator = confirm.options if asks else lambda command: command
    words = f"rollout {verb} kernel-update{' --yes' if asks else ''}"

    @command.command(verb, help=about, epilog=show.examples(words))
    @_ID
    @asking
    @show.as_json
    @options.service
    def control(
        service: ServiceTarget,
        id_: str,
        *,
        as_json: bool,
        confirmation: Confirmation | None = None,
    ) -> None:
        path = client.api_path("rollouts", client.full_id(service, "rollout", id_))
        if confirmation:
            rollout = client.ask(service, "GET", path)
            text = f"{rollout['id']}: {_counts(rollout)}; scheduled events would be cancelled"
            plan = Plan([text], rollout)
            question = f"{verb.title()} the {rollout['kind']} of {_count(rollout)}?"
            confirm.ask(confirmation, question, lambda: plan, as_json=as_json)
        rollout = client.ask(service, "POST", f"{path}/{verb}", {})
        text = f"{rollout['id']}: {rollout['status'].lower()}, {_counts(rollout)}"
        show.print_result(rollout, text, as_json=as_json)


_add("pause", "Pause a rollout. Events that are already scheduled still happen.")
_add("resume", "Resume a paused rollout.")
_add("abort", "Abort a rollout. Cancels its scheduled events; asks first.", asks=True)


# --- Progress ------------------------------------------------------------------------------------


def _reader(service: ServiceTarget, id_: str) -> Callable[[], Json]:
    return lambda: dict(client.ask(service, "GET", client.api_path("rollouts", id_)))


def _wait_for_end(service: ServiceTarget, id_: str, *, silent: bool, wait: bool = True) -> Json:
    """Return the rollout once it has stopped; show progress. Ctrl-C leaves it running."""
    read_rollout = _reader(service, id_)

    def read() -> tuple[Json, list[Json]]:
        rollout = read_rollout()
        return rollout, [] if silent else client.list_all(service, "events", rollout=id_)

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
            progress=wait,
        )
    except KeyboardInterrupt:
        click.echo("Stopped waiting; the rollout continues. To watch it again, run:", err=True)
        click.echo(f"  {service.command_line('rollout status --watch', id_)}", err=True)
        raise SystemExit(errors.FAILED if wait else 0) from None
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
    stopped = now.stopped and not _has_stopped(rollout)
    hint = show.stopped_clock_hint(service, stopped=stopped, indent="  ")
    waiting = show.pending(events, now.at)
    if not waiting:
        waiting = [f"  waits for {sentence}" for sentence in rollout["waits_for"][:_SENTENCES]]
    return blocks + waiting + hint


def _bar(rollout: Json) -> Block:
    over = rollout["done"] + rollout["failed"] + rollout["skipped"]
    return ProgressBar(over, rollout["machines"], f"{rollout['status']}: {_counts(rollout)}")


def _count(rollout: Json) -> str:
    return show.counted(rollout["machines"], "machine")


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
    raise SystemExit(errors.FAILED)
