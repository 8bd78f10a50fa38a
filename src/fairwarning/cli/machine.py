"""`fairwarning machine ...`: what there is, and what happens to it."""

import json
from pathlib import Path
from typing import Any

import click

from fairwarning.cli import client, options

_ACTIONS = {
    "restart": "A user restarts machines: Reboot, 15 minutes' notice.",
    "redeploy": "A user moves machines to other hosts: Redeploy, 10 minutes' notice.",
    "freeze": "The platform pauses machines for some seconds: Freeze, 15 minutes' notice.",
    "evict": "The platform takes Spot machines back: Preempt, 30 seconds' notice.",
    "fail": "The hardware of machines fails: no notice.",
    "delete": "A user deletes machines: Terminate, where their scale set gives notice.",
    "stop": "A user switches machines off, at once.",
    "start": "A user switches machines on, at once.",
}

_EPILOG = """\b
Examples:
  fairwarning machine list
  fairwarning machine restart web_0
  fairwarning machine freeze db_0 db_1 --seconds 5
"""


@click.group("machine", epilog=_EPILOG)
def command() -> None:
    """See machines, and let something happen to them.

    A machine that polls is told first; one that never asked is not, and it happens at once.
    """


@command.command("list")
@options.data
@click.option("--json", "as_json", is_flag=True, help="An array, for scripts.")
def list_(data: Path, *, as_json: bool) -> None:
    """Every machine, with what is announced for it."""
    with options.told():
        machines = list(_all(data))
    if as_json:
        click.echo(json.dumps(machines))
        return
    from rich.console import Console  # noqa: PLC0415  (takes its time, and only a table needs it)
    from rich.table import Table  # noqa: PLC0415  (so does this)

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("machine", "scope", "power", "what comes"):
        table.add_column(heading)
    for machine in machines:
        table.add_row(
            machine["name"], machine["scope"], machine["power"], "\n".join(_events(machine))
        )
    Console(highlight=False).print(table)


def _all(data: Path) -> Any:  # noqa: ANN401  (machines, as the console shows them)
    after: int | None = 0
    while after is not None:
        page = client.ask(data, "GET", f"/api/machines?after={after}")
        yield from page["machines"]
        after = page["next"]


def _events(machine: dict[str, Any]) -> list[str]:
    return [
        f"{event['type']} started"
        if event["status"] == "Started"
        else f"{event['type']} not before {event['not_before'][11:19]}"
        for event in machine["events"]
    ]


def _add(action: str, about: str) -> None:
    @command.command(action, help=about)
    @options.data
    @click.argument("machines", nargs=-1, required=True)
    @click.pass_context
    def act(
        context: click.Context, /, data: Path, machines: tuple[str, ...], **given: int | None
    ) -> None:
        seconds = given.get("seconds")
        body = {} if seconds is None else {"duration_seconds": seconds}
        with options.told():
            for machine in machines:
                path = f"/api/machines/{client.part(machine)}/{context.info_name}"
                click.echo(f"{machine}: {_accepted(client.ask(data, 'POST', path, body))}")

    if action == "freeze":
        click.option("--seconds", type=click.IntRange(0), help="How long the pause lasts.")(act)


def _accepted(answer: dict[str, Any]) -> str:
    operation = answer["operation"]["id"]
    if answer["polled"]:
        return f"accepted, operation {operation}"
    return f"accepted, operation {operation}; nobody polls there, so there is no notice"


for _action, _about in _ACTIONS.items():
    _add(_action, _about)
