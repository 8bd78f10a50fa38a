"""The actions on machines: `fairwarning machine restart`, `freeze`, `evict` and the like."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import confirm, follow, show
from fairwarning.cli.output.blocks import OutputTable
from fairwarning.cli.output.confirm import Confirmation, Plan
from fairwarning.cli.output.show import Json
from fairwarning.cli.parameters import completion, options
from fairwarning.cli.parameters.parameter_types import WHOLE_SECONDS, Number
from fairwarning.core import limits


def _unchanged(command: Callable[..., None]) -> Callable[..., None]:
    return command


class _Action(NamedTuple):
    """An action on machines: its help text, its own option and an example of that option."""

    help: str
    option: Callable[[Any], Any] = _unchanged
    example: str = ""
    asks: int = 0  # for confirmation, from this many machines on; 0: never
    spot: bool = False  # only for Spot machines
    notice: bool = True  # if a machine polls; a delete says it in its plan


def _duration(default_seconds: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    option = click.option(
        "--duration",
        "duration_seconds",
        type=WHOLE_SECONDS,
        help=f"Length of the pause: 5, 90s, 2m.  [default: {default_seconds}]",
    )
    old_name = options.renamed("--seconds", "--duration")
    return lambda command: option(old_name(command))


_DAYS = click.option(
    "--days",
    type=Number(0, min_open=True),
    help="Days of notice.  [default: 3]",
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
        "Pause machines. Event: Freeze, 15 minutes' notice.",
        _duration(limits.FREEZE_DURATION_SECONDS),
        " --duration 5",
    ),
    "migrate": _Action(
        "Live-migrate machines to other hosts. Event: Freeze, 15 minutes' notice.",
        _duration(limits.MIGRATION_DURATION_SECONDS),
        " --duration 5",
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
    "fail": _Action(
        "Fail the hardware of machines; asks first. Event: Redeploy, no notice.",
        asks=1,
        notice=False,
    ),
    "evict": _Action("Evict Spot machines. Event: Preempt, 30 seconds' notice.", spot=True),
    "recommend": _Action(
        "Recommend that Spot machines be replaced. Event: SpotRebalanceRecommendation; the machines"
        " keep running.",
        spot=True,
    ),
    "delete": _Action(
        "Delete machines; asks first. Event: Terminate, if their scale set has a termination"
        " notice.",
        asks=1,
        notice=False,
    ),
    "reimage": _Action(
        "Reimage machines; asks first if there are several. Takes effect immediately, without"
        " notice.",
        asks=2,
        notice=False,
    ),
    "stop": _Action(
        "Stop machines; asks first if there are several. Takes effect immediately; the machines"
        " stay on their hosts.",
        asks=2,
        notice=False,
    ),
    "deallocate": _Action(
        "Stop machines and release their hosts; asks first if there are several. Takes effect"
        " immediately, without notice.",
        asks=2,
        notice=False,
    ),
    "start": _Action("Start machines. Takes effect immediately.", notice=False),
}


def add_actions(group: click.Group) -> None:
    """Add a command for each action."""
    for name, action in _ACTIONS.items():
        _add(group, name, action)


def _add(group: click.Group, name: str, action: _Action) -> None:
    some = ["batch_0 --wait"] if action.spot else [f"web_0{action.example}", "web_1 db_0 --wait"]
    examples = show.examples(*(f"machine {name} {words}" for words in some))
    asking = confirm.options if action.asks else _unchanged

    @group.command(name, help=action.help, epilog=examples)
    @click.argument("machines", nargs=-1, required=True, shell_complete=completion.machines)
    @action.option
    @asking
    @show.waits
    @show.as_json
    @options.service
    def act(
        *,
        service: ServiceTarget,
        machines: tuple[str, ...],
        wait: bool,
        as_json: bool,
        confirmation: Confirmation | None = None,
        **settings: object,
    ) -> None:
        if confirmation and (confirmation.dry_run or len(machines) >= action.asks):
            _confirm(service, confirmation, name, machines, as_json=as_json)
        body = {key: value for key, value in settings.items() if value is not None}
        tried = confirm.ask_each(
            machines,
            lambda machine: client.ask(
                service, "POST", client.api_path("machines", machine, name), body
            ),
            lambda machine, answer: f"{machine}: {_accepted(action, answer)}",
            silent=as_json,
        )
        follow.accepted(service, tried.answers, as_json=as_json, wait=wait)
        tried.exit_if_failed()


def _confirm(
    service: ServiceTarget,
    confirmation: Confirmation,
    action: str,
    names: Sequence[str],
    *,
    as_json: bool,
) -> None:
    def plan() -> Plan:
        machines = [client.ask(service, "GET", client.api_path("machines", name)) for name in names]
        return Plan([plan_table(action, machines)], machines)

    count = show.counted(len(names), "machine")
    confirm.ask(confirmation, f"{action.title()} {count}?", plan, as_json=as_json)


def plan_table(action: str, machines: Sequence[Json]) -> OutputTable:
    """Return a table of the machines on which an action is planned, with their notice."""
    rows = [
        (machine["name"], machine["scope"], show.power(machine), _notice(action, machine))
        for machine in machines
    ]
    return OutputTable(("machine", "scope", "power", "notice"), rows)


def _notice(action: str, machine: Json) -> str:
    if action != "delete" or not machine["polled"]:
        return "none"
    return machine["terminate_notice"] or "none"


def _accepted(action: _Action, answer: Json) -> str:
    operation = answer["operation"]["id"]
    if answer["polled"] or not action.notice:
        return f"accepted, operation {operation}"
    return f"accepted, operation {operation}; no notice, because no machine of the scope polls"
