"""`fairwarning machine ...`: manage machines, and trigger events on them."""

from collections.abc import Sequence
from operator import itemgetter

import click

from fairwarning.cli.commands import listing
from fairwarning.cli.commands.listing import Column, Listing, add_list
from fairwarning.cli.commands.machine_actions import add_actions
from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import LocalService, ServiceTarget
from fairwarning.cli.output import show
from fairwarning.cli.output.blocks import Block, FieldList, StyledText
from fairwarning.cli.output.show import Json
from fairwarning.cli.parameters import completion, filters, machine_settings, options
from fairwarning.cli.parameters.command_classes import SuggestingGroup
from fairwarning.cli.parameters.parameter_types import Integer
from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Power
from fairwarning.server.ready import read_ready, socket_url

_NO_URL = (
    "A machine without a URL is reached from its own address, by `fairwarning exec`, or after `up`"
    " with --machine-ports, --default-machine or --sockets (`machine url`)."
)

_EPILOG = show.examples(
    "machine list",
    "machine restart web_0 --wait",
    "machine freeze db_0 --duration 5",
    "machine explain web_0",
)


@click.group("machine", cls=SuggestingGroup, epilog=_EPILOG)
def command() -> None:
    """Manage machines and trigger events on them.

    Machines get notice only if a machine of their scope polls for events. Otherwise an action
    takes effect immediately.
    """


@command.command(
    "create",
    epilog=show.examples(
        "machine create vm",
        "machine create render --count 9 --priority Spot --eviction Delete",
        "machine create gpu --size Standard_B2s --zone 1 --tag team=ml",
    ),
)
@click.argument("name")
@click.option("--count", type=Integer(1), help="Create NAME_0, NAME_1 and so on.")
@machine_settings.PRIORITY
@machine_settings.EVICTION
@machine_settings.SIZE
@machine_settings.ZONE
@click.option("--host", help="Physical host. Host failures affect all machines on the host.")
@click.option("--address", help="Address that the machine's requests come from.")
@machine_settings.SUBNET
@machine_settings.GROUP
@machine_settings.TAGS
@show.as_json
@options.service
def create(*, service: ServiceTarget, as_json: bool, **settings: object) -> None:
    """Create standalone machines. To create a scale set, use `set create`."""
    body = {name: value for name, value in settings.items() if value}
    machines = client.ask(service, "POST", "/api/machines", body)["machines"]
    lines = [f"{machine['name']}: created" for machine in machines]
    show.print_result(machines, *lines, as_json=as_json)


def _schedule(machine: Json) -> StyledText | str:
    summaries = [show.summary(event) for event in machine["events"]]
    if not summaries:
        return ""
    return StyledText("\n".join(summary.text for summary in summaries), summaries[0].style)


def _notes(machines: Sequence[Json]) -> list[Block]:
    return [] if all(machine["url"] for machine in machines) else [_NO_URL]


_MACHINES = Listing(
    "machines",
    "machines",
    (
        Column("machine", itemgetter("name")),
        Column("scope", itemgetter("scope")),
        Column("power", show.power),
        Column("url", lambda machine: machine["url"] or ""),
        Column("schedule", _schedule),
        Column("polled", lambda machine: "yes" if machine["polled"] else "no", wide=True),
        Column("set", itemgetter("set"), wide=True),
        Column("domain", lambda machine: str(machine["update_domain"]), wide=True),
        Column("address", itemgetter("address"), wide=True),
        Column("host", itemgetter("host"), wide=True),
        Column("priority", itemgetter("priority"), wide=True),
        Column("size", itemgetter("size"), wide=True),
        Column("zone", itemgetter("zone"), wide=True),
        Column("group", itemgetter("group"), wide=True),
        Column("number", lambda machine: str(machine["number"]), wide=True),
    ),
    whole="url",
    notes=_notes,
)


add_list(
    command,
    _MACHINES,
    "List machines with their scheduled events.",
    "machine list",
    "machine list --set web --watch",
    "machine list --not-polled -o name",
    "machine list --type Reboot --sort schedule",
    "machine list --columns machine,power -o csv",
    filters=[
        *(filters.SCOPE, filters.SET, filters.TYPE, filters.STATUS),
        *(filters.NOT_POLLED, filters.TEXT),
        filters.one_of("--power", Power, "Only with this power state."),
    ],
)


@command.command(
    "set-address",
    epilog=show.examples("machine set-address web_0 10.0.0.9", 'machine set-address web_0 ""'),
)
@click.argument("name", shell_complete=completion.machines)
@click.argument("address")
@show.as_json
@options.service
def set_address(service: ServiceTarget, name: str, address: str, *, as_json: bool) -> None:
    """Change the address of a machine; an empty one removes it.

    When machines are real, the service recognises a machine by the address of its requests.
    """
    path = client.api_path("machines", name)
    machine = client.ask(service, "PATCH", path, {"address": address})
    show.print_result(machine, f"{name}: address {address or 'removed'}", as_json=as_json)


@command.command("show", epilog=show.examples("machine show web_0", "machine show web_0 --json"))
@click.argument("name", shell_complete=completion.machines)
@show.as_json
@options.service
def show_(service: ServiceTarget, name: str, *, as_json: bool) -> None:
    """Show a machine."""
    machine = client.ask(service, "GET", client.api_path("machines", name))
    blocks: list[Block] = [_fields(machine)]
    if machine["events"]:
        blocks += ["", show.events(machine["events"])]
    show.print_result(machine, *blocks, as_json=as_json)


@command.command("url", epilog=show.examples("machine url web_0"))
@click.argument("name", shell_complete=completion.machines)
@options.service
def url(service: ServiceTarget, name: str) -> None:
    """Print the URL of a machine's metadata endpoint.

    A program acts as the machine with FAIRWARNING_ENDPOINT=$(fairwarning machine url NAME).
    """
    machine = client.ask(service, "GET", client.api_path("machines", name))
    answering = machine["url"] or _socket_url(service, machine["name"])
    if not answering:
        raise Unavailable("NoUrl", f"{name} has no URL that answers here. {_NO_URL}")
    click.echo(answering)


def _socket_url(service: ServiceTarget, name: str) -> str | None:
    """Return the URL of a machine's socket on this host; None if it has none."""
    if not isinstance(service, LocalService):
        return None
    client.ask(service, "GET", client.api_path("machines", name))  # refuses one that several have
    return socket_url(read_ready(service.folder), name)


def _fields(machine: Json) -> FieldList:
    others = {
        "scope": f"{machine['scope']} ({machine['kind']})",
        "url": machine["url"] or f"none. {_NO_URL}",
        "schedule": "",  # a table of its own
        "polled": "yes" if machine["polled"] else "no (events give no notice)",
        "set": machine["set"] and f"{machine['set']}, instance {machine['instance']}",
        "eviction": machine["eviction"] if machine["priority"] == "Spot" else "",
        "notice": machine["terminate_notice"] or "none",
        "fault domain": str(machine["fault_domain"]),
        "host name": machine["host_name"],
        "tags": show.tags(machine["tags"]),
        "subnet": machine["subnet"],
    }
    return listing.fields(_MACHINES, machine, others)


@command.command(
    "explain", epilog=show.examples("machine explain web_0", "machine explain web_0 --json")
)
@click.argument("name", shell_complete=completion.machines)
@show.as_json
@options.service
def explain(service: ServiceTarget, name: str, *, as_json: bool) -> None:
    """Show the recent history of a machine. Includes what it is waiting for."""
    show.explain(service, "machines", name, as_json=as_json)


add_actions(command)
