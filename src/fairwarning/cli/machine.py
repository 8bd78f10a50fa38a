"""`fairwarning machine ...`: manage machines, and trigger events on them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import click

from fairwarning.cli import client, completion, explanation, follow, options, show
from fairwarning.cli.blocks import Block, FieldList, OutputTable, StyledText
from fairwarning.cli.durations import WholeSeconds
from fairwarning.cli.show import Json
from fairwarning.cli.target import ServiceTarget
from fairwarning.core.errors import FairwarningError, Unavailable

_NO_URL = (
    "A machine without a URL is reached from its own address, by `fairwarning exec`, or after `up`"
    " with --machine-ports, --default-machine or --sockets."
)

_EPILOG = show.examples(
    "machine list",
    "machine restart web_0 --wait",
    "machine freeze db_0 db_1 --seconds 5",
    "machine explain web_0",
)


class _Action(NamedTuple):
    """An action on machines: its help text, its own option and an example of that option."""

    help: str
    option: Callable[[Any], Any] | None = None
    example: str = ""


_SECONDS = click.option(
    "--seconds",
    "duration_seconds",
    type=WholeSeconds(),
    help="Length of the pause: 5, 90s, 2m.",
)
_DAYS = click.option(
    "--days",
    type=click.FloatRange(0, min_open=True),
    help="Days of notice.",
)
_KIND = click.option(
    "--kind",
    type=click.Choice(["freeze", "reboot", "redeploy"]),
    help="Impact on the machines.  [default: freeze]",
)

_ACTIONS = {
    "restart": _Action("Restart machines. Event: Reboot, 15 minutes' notice."),
    "redeploy": _Action("Move machines to other hosts. Event: Redeploy, 10 minutes' notice."),
    "freeze": _Action(
        "Pause machines. Event: Freeze, 15 minutes' notice.", _SECONDS, " --seconds 5"
    ),
    "migrate": _Action(
        "Live-migrate machines to other hosts. Event: Freeze, 15 minutes' notice.",
        _SECONDS,
        " --seconds 5",
    ),
    "maintain": _Action(
        "Perform maintenance on the hosts of machines. Event: Freeze, Reboot or Redeploy, 10 or 15"
        " minutes' notice.",
        _KIND,
        " --kind reboot",
    ),
    "degrade": _Action(
        "Report degraded hardware that will fail. Event: Redeploy, days of notice.",
        _DAYS,
        " --days 3",
    ),
    "fail": _Action("Fail the hardware of machines. Event: Redeploy, no notice."),
    "evict": _Action("Evict Spot machines. Event: Preempt, 30 seconds' notice."),
    "recommend": _Action(
        "Recommend that Spot machines be replaced. Event: SpotRebalanceRecommendation; the machines"
        " keep running."
    ),
    "delete": _Action(
        "Delete machines. Event: Terminate, if their scale set has a termination notice."
    ),
    "reimage": _Action("Reimage machines. Takes effect immediately, without notice."),
    "stop": _Action("Stop machines. Takes effect immediately; the machines stay on their hosts."),
    "deallocate": _Action(
        "Stop machines and release their hosts. Takes effect immediately, without notice."
    ),
    "start": _Action("Start machines. Takes effect immediately."),
}


@click.group("machine", epilog=_EPILOG)
def command() -> None:
    """Manage machines and trigger events on them.

    Machines get notice only if a machine of their scope polls for events. Otherwise an action
    takes effect immediately.
    """


def parse_tags(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> Json:
    """Parse tags written as K=V."""
    tags: Json = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{word!r} is not K=V, such as env=prod", context, parameter)
        tags[name] = value
    return tags


PRIORITY = click.option("--priority", type=click.Choice(["Regular", "Spot"], case_sensitive=False))
EVICTION = click.option(
    "--eviction",
    type=click.Choice(["Deallocate", "Delete"], case_sensitive=False),
    help="What happens to a Spot machine on eviction.",
)
SIZE = click.option("--size", help="VM size reported to the machine, such as Standard_B1s.")
ZONE = click.option("--zone", help="Availability zone reported to the machine.")
TAGS = click.option(
    "--tag", "tags", metavar="K=V", multiple=True, callback=parse_tags, help="Tag; repeatable."
)
SUBNET = click.option(
    "--subnet", help="Network that the machines get addresses from, such as 10.0.0.0/24."
)
GROUP = click.option("--group", help="Resource group.")


@command.command(
    "create",
    epilog=show.examples(
        "machine create vm",
        "machine create batch --count 9 --priority Spot --eviction Delete",
        "machine create gpu --size Standard_B2s --zone 1 --tag team=ml",
    ),
)
@click.argument("name")
@click.option("--count", type=click.IntRange(1), help="Create NAME_0, NAME_1 and so on.")
@PRIORITY
@EVICTION
@SIZE
@ZONE
@click.option("--host", help="Physical host. Host failures affect all machines on the host.")
@click.option("--address", help="Address that the machine's requests come from.")
@SUBNET
@GROUP
@TAGS
@show.as_json
@options.service
def create(*, service: ServiceTarget, as_json: bool, **settings: object) -> None:
    """Create standalone machines. To create a scale set, use `set create`."""
    body = {name: value for name, value in settings.items() if value}
    with options.errors_reported():
        machines = client.ask(service, "POST", "/api/machines", body)["machines"]
    lines = [f"{machine['name']}: created" for machine in machines]
    show.print_result(machines, *lines, as_json=as_json)


@command.command(
    "list",
    epilog=show.examples(
        "machine list", "machine list --set web --watch", "machine list --json | jq -r '.[].name'"
    ),
)
@click.option(
    "--set", "set_", help="Only machines of this scale set.", shell_complete=completion.sets
)
@click.option("--scope", help="Only machines of this scope.", shell_complete=completion.scopes)
@show.as_json
@show.watched
@options.service
def list_(
    service: ServiceTarget, set_: str | None, scope: str | None, *, as_json: bool, watch: bool
) -> None:
    """List machines with their scheduled events."""
    with options.errors_reported():
        follow.listing(
            service, "machines", _table, as_json=as_json, watch_=watch, set=set_, scope=scope
        )


def _table(machines: list[Json]) -> list[Block]:
    rows = [
        (
            machine["name"],
            machine["scope"],
            _state(machine),
            machine["url"] or "",
            _schedule(machine),
        )
        for machine in machines
    ]
    headings = ("machine", "scope", "power", "url", "schedule")
    blocks = show.first_rows(OutputTable(headings, rows, whole="url"), "machines")
    return blocks if all(machine["url"] for machine in machines) else [*blocks, _NO_URL]


def _state(machine: Json) -> StyledText:
    power, doing = machine["power"], machine["doing"]
    if doing:
        return StyledText(f"{power}, {doing} in progress", "bold")
    return StyledText(power, "green" if power == "running" else "dim")


def _schedule(machine: Json) -> StyledText | str:
    summaries = [show.summary(event) for event in machine["events"]]
    if not summaries:
        return ""
    return StyledText("\n".join(summary.text for summary in summaries), summaries[0].style)


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
    with options.errors_reported():
        path = f"/api/machines/{client.quoted(name)}"
        machine = client.ask(service, "PATCH", path, {"address": address})
    show.print_result(machine, f"{name}: address {address or 'removed'}", as_json=as_json)


@command.command("show", epilog=show.examples("machine show web_0", "machine show web_0 --json"))
@click.argument("name", shell_complete=completion.machines)
@show.as_json
@options.service
def show_(service: ServiceTarget, name: str, *, as_json: bool) -> None:
    """Show a machine."""
    with options.errors_reported():
        machine = client.ask(service, "GET", f"/api/machines/{client.quoted(name)}")
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
    with options.errors_reported():
        machine = client.ask(service, "GET", f"/api/machines/{client.quoted(name)}")
        if not machine["url"]:
            raise Unavailable("NoUrl", f"{name} has no URL that answers here. {_NO_URL}")
    click.echo(machine["url"])


def _fields(machine: Json) -> FieldList:
    return FieldList(
        {
            "machine": machine["name"],
            "scope": f"{machine['scope']} ({machine['kind']})",
            "scale set": machine["set"] and f"{machine['set']}, instance {machine['instance']}",
            "power": _state(machine),
            "polled": "yes" if machine["polled"] else "no (events give no notice)",
            "priority": machine["priority"],
            "eviction": machine["eviction"] if machine["priority"] == "Spot" else "",
            "termination notice": machine["terminate_notice"] or "none",
            "update domain": str(machine["update_domain"]),
            "fault domain": str(machine["fault_domain"]),
            "host": machine["host"],
            "host name": machine["host_name"],
            "group": machine["group"],
            "size": machine["size"],
            "zone": machine["zone"],
            "tags": show.tags(machine["tags"]),
            "address": machine["address"],
            "subnet": machine["subnet"],
            "url": machine["url"] or f"none. {_NO_URL}",
        }
    )


@command.command(
    "explain", epilog=show.examples("machine explain web_0", "machine explain web_0 --json")
)
@click.argument("name", shell_complete=completion.machines)
@show.as_json
@options.service
def explain(service: ServiceTarget, name: str, *, as_json: bool) -> None:
    """Show the recent history of a machine. Includes what it is waiting for."""
    with options.errors_reported():
        history = client.ask(service, "GET", f"/api/machines/{client.quoted(name)}/explain")
    show.print_result(history, *([] if as_json else explanation.blocks(history)), as_json=as_json)


# --- Actions -------------------------------------------------------------------------------------


def _add(name: str, action: _Action) -> None:
    examples = show.examples(
        f"machine {name} web_0{action.example}", f"machine {name} web_0 web_1 --wait"
    )

    @command.command(name, help=action.help, epilog=examples)
    @click.argument("machines", nargs=-1, required=True, shell_complete=completion.machines)
    @show.waits
    @show.as_json
    @options.service
    def act(
        *,
        service: ServiceTarget,
        machines: tuple[str, ...],
        wait: bool,
        as_json: bool,
        **settings: object,
    ) -> None:
        body = {key: value for key, value in settings.items() if value is not None}
        answers: list[Json] = []
        with options.errors_reported():
            try:
                for machine in machines:
                    path = f"/api/machines/{client.quoted(machine)}/{name}"
                    answers.append(client.ask(service, "POST", path, body))
                    if not as_json:
                        click.echo(f"{machine}: {_accepted(answers[-1])}")
            except FairwarningError:
                if answers:  # report the operations accepted before the error
                    follow.accepted(service, answers, as_json=as_json, wait=False)
                raise
            follow.accepted(service, answers, as_json=as_json, wait=wait)

    if action.option is not None:
        action.option(act)


def _accepted(answer: Json) -> str:
    operation = answer["operation"]["id"]
    if answer["polled"]:
        return f"accepted, operation {operation}"
    return f"accepted, operation {operation}; no notice, because no machine of the scope polls"


for _name, _action in _ACTIONS.items():
    _add(_name, _action)
