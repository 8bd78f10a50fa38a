"""`fairwarning status`: the service, its fleet, what is due and what is wrong, on one screen."""

from collections.abc import Iterator

import click

from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import show
from fairwarning.cli.output.blocks import Block, FieldList, StyledText
from fairwarning.cli.output.show import Json, counted, moment
from fairwarning.cli.parameters import options
from fairwarning.cli.parameters.command_classes import SectionedCommand
from fairwarning.core.times import parse_date

_DUE = 5  # events


@click.command("status", cls=SectionedCommand, epilog=show.examples("status", "status --json"))
@show.as_json
@options.service
def command(service: ServiceTarget, *, as_json: bool) -> None:
    """Show the service, its fleet, what is due next and what is wrong.

    Exits with 0 if the service answers, whatever is wrong; see `healthcheck` for scripts.
    """
    about = client.ask(service, "GET", "/api/service")
    clock = client.ask(service, "GET", "/api/clock")
    summary = client.ask(service, "GET", "/api/summary")
    due = client.read_list(service, "events", _DUE, status="Scheduled")
    problems = list(_problems(service, summary))
    ports = {"console": service.address().url, "metadata": about["metadata"], "arm": about["arm"]}
    value = {
        "version": about["version"],
        "ports": ports,
        "clock": clock,
        "fleet": summary,
        "due": due.items,
        "problems": problems,
    }
    hint = show.stopped_clock_hint(service, stopped=not clock["rate"])
    blocks = [_fields(value), *_due(value, due.total), *hint, *_wrong(problems)]
    show.print_result(value, *blocks, as_json=as_json)


def _fields(value: Json) -> FieldList:
    fleet, clock, ports = value["fleet"], value["clock"], value["ports"]
    powers = ", ".join(f"{count} {power}" for power, count in fleet["power"].items())
    rollouts = ", ".join(f"{count} {status.lower()}" for status, count in fleet["rollouts"].items())
    events = ", ".join(
        f"{event['count']} {event['type']} {event['status'].lower()}" for event in fleet["events"]
    )
    return FieldList(
        {
            "service": f"Fairwarning {value['version']}, {_state(fleet)}",
            "console": ports["console"],
            "metadata": ports["metadata"],
            "arm": ports["arm"],
            "clock": f"{moment(clock['now'])}, {show.pace(clock)}",
            "machines": f"{powers or 'none'}, in {counted(fleet['scopes'], 'scope')}",
            "events": events or "none",
            "rollouts": rollouts or "none",
        }
    )


def _state(fleet: Json) -> str:
    return "not ready" if fleet["problem"] else "degraded" if fleet["degraded"] else "ready"


def _due(value: Json, total: int | None) -> list[Block]:
    if not value["due"]:
        return []
    now = parse_date(value["clock"]["now"])
    lines = show.pending(value["due"], now, _DUE)
    more = (total or 0) - len(value["due"])
    lines += [f"  and {more} more"] if more > 0 else []
    return ["", StyledText("due next", "bold"), *lines]


def _wrong(problems: list[str]) -> list[Block]:
    lines: list[Block] = [StyledText(f"  {problem}", "red") for problem in problems]
    return ["", StyledText("wrong", "bold"), *(lines or ["  nothing"])]


def _problems(service: ServiceTarget, fleet: Json) -> Iterator[str]:
    """Yield what an operator should look at, each with the command that shows it."""
    if fleet["problem"]:
        yield f"the service accepts no commands: {fleet['problem']}"
    for part, problem in fleet["degraded"].items():
        yield f"{part}: {problem}"
    faults = client.ask(service, "GET", "/api/faults")["faults"]
    paused, silent = fleet["rollouts"].get("Paused", 0), fleet["machines_not_polled"]
    counts = {
        "bug list": (fleet["set_aside"], f"{fleet['set_aside']} set aside because of a bug"),
        "fault list": (len(faults), f"{counted(len(faults), 'injected fault')}"),
        "rollout list --status Paused": (paused, counted(paused, "paused rollout")),
        "machine list --not-polled": (
            silent,
            f"{counted(silent, 'machine')} without notice, because no machine of the scope polls",
        ),
    }
    for command_words, (count, text) in counts.items():
        if count:
            yield f"{text}; see `{service.command_line(command_words)}`"
    for webhook in client.ask(service, "GET", "/api/webhooks")["webhooks"]:
        if webhook["last_error"]:
            yield f"webhook {webhook['name']}: {webhook['last_error']}"
