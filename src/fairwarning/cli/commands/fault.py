"""`fairwarning fault ...`: inject faults into the metadata endpoint (M21)."""

import click

from fairwarning.cli.commands.listing import Column, Listing, add_list
from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import show
from fairwarning.cli.output.show import Json
from fairwarning.cli.parameters import completion, options
from fairwarning.cli.parameters.command_classes import SuggestingGroup
from fairwarning.cli.parameters.parameter_types import DURATION, Integer
from fairwarning.core.times import spoken
from fairwarning.service.faults import FaultKind

_EPILOG = show.examples(
    "fault set 410 --machine web_0 --count 3",
    "fault set delay --delay 5 --duration 60",
    "fault list",
    "fault clear",
)


@click.group("fault", cls=SuggestingGroup, epilog=_EPILOG)
def command() -> None:
    """Inject faults into the metadata endpoint, to test a handler."""


@command.command(
    "set",
    epilog=show.examples(
        "fault set 410 --machine web_0 --count 3",
        "fault set 500 --scope web/0 --duration 2m",
        "fault set delay --delay 5",
    ),
)
@click.argument("kind", type=click.Choice([kind.value for kind in FaultKind]))
@click.option(
    "--machine", help="Only this machine.  [default: all]", shell_complete=completion.machines
)
@click.option(
    "--scope", help="Only machines of this scope.  [default: all]", shell_complete=completion.scopes
)
@click.option("--count", type=Integer(1), help="Number of requests.  [default: no limit]")
@click.option(
    "--duration",
    "seconds",
    type=DURATION,
    help="How long the fault lasts: 90, 2m, 1h.  [default: until cleared]",
)
@options.renamed("--seconds", "--duration")
@click.option(
    "--delay",
    "delay_seconds",
    type=DURATION,
    help="Length of a delay: 5, 0.5.  [default: 1]",
)
@options.service
def set_(
    *, service: ServiceTarget, kind: str, machine: str | None, scope: str | None, **settings: float
) -> None:
    """Inject a fault. Every fault but a delay closes the connection."""
    values = {"kind": kind, "machine": machine, "scope": scope, **settings}
    body = {name: value for name, value in values.items() if value is not None}
    client.ask(service, "POST", "/api/faults", body)
    target = machine or (f"all machines of {scope}" if scope else "all machines")
    clear = service.command_line("fault clear")
    click.echo(f"Fault {kind} set for {target}. Clear it with `{clear}`.")


def _kind(fault: Json) -> str:
    delay = fault["kind"] == FaultKind.DELAY
    return f"{fault['kind']} of {spoken(fault['delay_seconds'])}" if delay else fault["kind"]


def _target(fault: Json) -> str:
    return fault["machine"] or (f"all of {fault['scope']}" if fault["scope"] else "all machines")


_FAULTS = Listing(
    "faults",
    "faults",
    (
        Column("fault", _kind),
        Column("target", _target),
        Column("requests", lambda fault: str(fault["count"] or "no limit")),
        Column(
            "duration",
            lambda fault: spoken(fault["seconds"]) if fault["seconds"] else "until cleared",
        ),
    ),
    key="kind",
    live=False,
)


add_list(command, _FAULTS, "List active faults.", "fault list", "fault list --json")


@command.command(epilog=show.examples("fault clear"))
@options.service
def clear(service: ServiceTarget) -> None:
    """Clear all faults."""
    client.ask(service, "DELETE", "/api/faults")
    click.echo("Cleared all faults.")
