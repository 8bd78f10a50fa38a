"""`fairwarning machine ...`: what there is, and what happens to it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from fairwarning.cli import client, completion, explanation, follow, options, show
from fairwarning.cli.blocks import Block, FieldList, OutputTable, StyledText
from fairwarning.cli.durations import WholeSeconds
from fairwarning.cli.show import Json
from fairwarning.core.errors import FairwarningError

_EPILOG = show.examples(
    "machine list",
    "machine restart web_0 --wait",
    "machine freeze db_0 db_1 --seconds 5",
    "machine explain web_0",
)


class _Action(NamedTuple):
    """What may happen to machines, and what it takes."""

    about: str
    option: Callable[[Any], Any] | None = None
    example: str = ""


_SECONDS = click.option(
    "--seconds",
    "duration_seconds",
    type=WholeSeconds(),
    help="How long the pause lasts: 5, 90s, 2m.",
)
_DAYS = click.option(
    "--days",
    type=click.FloatRange(0, min_open=True),
    help="How many days ahead it is announced.",
)
_KIND = click.option(
    "--kind",
    type=click.Choice(["freeze", "reboot", "redeploy"]),
    help="What it does to them.  [default: freeze]",
)

_ACTIONS = {
    "restart": _Action("A user restarts machines. Reboot, 15 minutes' notice."),
    "redeploy": _Action("A user moves machines to other hosts. Redeploy, 10 minutes' notice."),
    "freeze": _Action(
        "The platform pauses machines. Freeze, 15 minutes' notice.", _SECONDS, " --seconds 5"
    ),
    "migrate": _Action(
        "The platform moves machines while they run. Freeze, 15 minutes' notice.",
        _SECONDS,
        " --seconds 5",
    ),
    "maintain": _Action(
        "The platform works on the hosts of machines. 10 or 15 minutes' notice.",
        _KIND,
        " --kind reboot",
    ),
    "degrade": _Action(
        "The hardware of machines is about to fail. Redeploy, with days of notice.",
        _DAYS,
        " --days 3",
    ),
    "fail": _Action("The hardware of machines fails. There is no notice."),
    "evict": _Action("The platform takes Spot machines back. Preempt, 30 seconds' notice."),
    "recommend": _Action(
        "The platform advises Spot machines to leave. Nothing happens to them by itself."
    ),
    "delete": _Action("A user deletes machines. Terminate, where their scale set gives notice."),
    "reimage": _Action("A user puts disks of machines back to their image. It happens at once."),
    "stop": _Action("A user switches machines off. At once; they keep their hosts."),
    "deallocate": _Action("A user switches machines off for long. At once; their hosts go."),
    "start": _Action("A user switches machines on. It happens at once."),
}


@click.group("machine", epilog=_EPILOG)
def command() -> None:
    """See machines, make them, and let something happen to them.

    A machine that polls is told first; one that never asked is not, and it happens at once.
    """


def tagged(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Json:
    """The tags of K=V words."""
    tags: Json = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{word!r} is not K=V, such as env=prod", context, parameter)
        tags[name] = value
    return tags


PRIORITY = click.option("--priority", type=click.Choice(["Regular", "Spot"], case_sensitive=False))
EVICTION = click.option(
    "--eviction",
    type=click.Choice(["Deallocate", "Delete"], case_sensitive=False),
    help="What an eviction leaves of a Spot machine.",
)
SIZE = click.option("--size", help="As the machine is told, such as Standard_B1s.")
ZONE = click.option("--zone", help="As the machine is told.")
TAGS = click.option(
    "--tag", "tags", metavar="K=V", multiple=True, callback=tagged, help="As often as you like."
)
GROUP = click.option("--group", help="Its resource group.")


@command.command(
    "create",
    epilog=show.examples(
        "machine create vm",
        "machine create batch --count 9 --priority Spot --eviction Delete",
        "machine create gpu --size Standard_B2s --zone 1 --tag team=ml",
    ),
)
@options.data
@click.argument("name")
@click.option("--count", type=click.IntRange(1), help="So many, called NAME_0, NAME_1 and so on.")
@PRIORITY
@EVICTION
@SIZE
@ZONE
@click.option("--host", help="The physical host; machines of one host are hit together.")
@GROUP
@TAGS
@show.as_json
def create(*, data: Path, as_json: bool, **given: object) -> None:
    """Make machines that stand by themselves. `set create` makes a scale set."""
    body = {name: value for name, value in given.items() if value}
    with options.errors_reported():
        made = client.ask(data, "POST", "/api/machines", body)["machines"]
    lines = [f"{machine['name']}: created" for machine in made]
    show.print_result(made, *lines, as_json=as_json)


@command.command(
    "list",
    epilog=show.examples(
        "machine list", "machine list --set web --watch", "machine list --json | jq -r '.[].name'"
    ),
)
@options.data
@click.option("--set", "set_", help="Only of this scale set.", shell_complete=completion.sets)
@click.option("--scope", help="Only of this scope.", shell_complete=completion.scopes)
@show.as_json
@show.watched
def list_(data: Path, set_: str | None, scope: str | None, *, as_json: bool, watch: bool) -> None:
    """Every machine, with what is announced for it."""
    with options.errors_reported():
        follow.listing(
            data, "machines", _table, as_json=as_json, watch_=watch, set=set_, scope=scope
        )


def _table(machines: list[Json]) -> list[Block]:
    rows = [
        (machine["name"], machine["scope"], _state(machine), _coming(machine))
        for machine in machines
    ]
    return show.first_rows(
        OutputTable(("machine", "scope", "power", "what comes"), rows), "machines"
    )


def _state(machine: Json) -> StyledText:
    power, doing = machine["power"], machine["doing"]
    if doing:
        return StyledText(f"{power}, {doing} under way", "bold")
    return StyledText(power, "green" if power == "running" else "dim")


def _coming(machine: Json) -> StyledText | str:
    found = [show.coming(event) for event in machine["events"]]
    return StyledText("\n".join(one.text for one in found), found[0].style) if found else ""


@command.command("show", epilog=show.examples("machine show web_0", "machine show web_0 --json"))
@options.data
@click.argument("name", shell_complete=completion.machines)
@show.as_json
def show_(data: Path, name: str, *, as_json: bool) -> None:
    """Everything about one machine."""
    with options.errors_reported():
        machine = client.ask(data, "GET", f"/api/machines/{client.part(name)}")
    blocks: list[Block] = [_facts(machine)]
    if machine["events"]:
        blocks += ["", show.events(machine["events"])]
    show.print_result(machine, *blocks, as_json=as_json)


def _facts(machine: Json) -> FieldList:
    return FieldList(
        {
            "machine": machine["name"],
            "scope": f"{machine['scope']} ({machine['kind']})",
            "scale set": machine["set"] and f"{machine['set']}, instance {machine['instance']}",
            "power": _state(machine),
            "polled": "yes" if machine["polled"] else "no, so there is no notice",
            "priority": machine["priority"],
            "eviction": machine["eviction"] if machine["priority"] == "Spot" else "",
            "delete notice": machine["terminate_notice"] or "none",
            "update domain": str(machine["update_domain"]),
            "fault domain": str(machine["fault_domain"]),
            "host": machine["host"],
            "host name": machine["host_name"],
            "group": machine["group"],
            "size": machine["size"],
            "zone": machine["zone"],
            "tags": show.tags(machine["tags"]),
            "address": machine["address"],
        }
    )


@command.command(
    "explain", epilog=show.examples("machine explain web_0", "machine explain web_0 --json")
)
@options.data
@click.argument("name", shell_complete=completion.machines)
@show.as_json
def explain(data: Path, name: str, *, as_json: bool) -> None:
    """What happened to a machine lately. Step by step, with what it waits for."""
    with options.errors_reported():
        told = client.ask(data, "GET", f"/api/machines/{client.part(name)}/explain")
    show.print_result(told, *([] if as_json else explanation.blocks(told)), as_json=as_json)


# --- Actions -------------------------------------------------------------------------------------


def _add(name: str, action: _Action) -> None:
    once, several = f"machine {name} web_0{action.example}", f"machine {name} web_0 web_1 --wait"

    @command.command(name, help=action.about, epilog=show.examples(once, several))
    @options.data
    @click.argument("machines", nargs=-1, required=True, shell_complete=completion.machines)
    @show.waits
    @show.as_json
    def act(
        *, data: Path, machines: tuple[str, ...], wait: bool, as_json: bool, **given: object
    ) -> None:
        body = {key: value for key, value in given.items() if value is not None}
        answers: list[Json] = []
        with options.errors_reported():
            try:
                for machine in machines:
                    path = f"/api/machines/{client.part(machine)}/{name}"
                    answers.append(client.ask(data, "POST", path, body))
                    if not as_json:
                        click.echo(f"{machine}: {_accepted(answers[-1])}")
            except FairwarningError:
                if answers:  # the first was accepted, though the second was not
                    follow.accepted(data, answers, as_json=as_json, wait=False)
                raise
            follow.accepted(data, answers, as_json=as_json, wait=wait)

    if action.option is not None:
        action.option(act)


def _accepted(answer: Json) -> str:
    operation = answer["operation"]["id"]
    if answer["polled"]:
        return f"accepted, operation {operation}"
    return f"accepted, operation {operation}; nobody polls there, so there is no notice"


for _name, _action in _ACTIONS.items():
    _add(_name, _action)
