"""Shared output: printing blocks or JSON, formatting times and events, explaining a history."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output.blocks import Block, FieldList, OutputTable, StyledText, text_lines
from fairwarning.core.times import parse_date, spoken

Json = dict[str, Any]
"""A JSON object from the console API."""

_TYPES = {"Preempt": "magenta", "Terminate": "red", "Redeploy": "yellow", "Reboot": "yellow"}

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
watched = click.option(
    "--watch", is_flag=True, help="Keep watching and print changes until Ctrl-C."
)
waits = click.option(
    "--wait", is_flag=True, help="Wait for completion; exit with 1 if the operation fails."
)


def print_blocks(*blocks: Block) -> None:
    """Print blocks: with colour on a terminal, as plain text elsewhere."""
    if not sys.stdout.isatty():
        print_lines(blocks)
        return
    from fairwarning.cli.output import terminal  # noqa: PLC0415  (rich is slow to import)

    terminal.put(blocks)


def note(*blocks: Block) -> None:
    """Print what is only for people: to stderr if stdout is a pipe or a file."""
    if sys.stdout.isatty():
        print_blocks(*blocks)
    else:
        print_lines(blocks, err=True)


def print_lines(blocks: Iterable[Block], *, err: bool = False) -> None:
    """Print blocks as plain text; no line is folded or cut."""
    click.echo("".join(f"{line}\n" for line in text_lines(blocks)), nl=False, err=err)


def print_result(value: object, *blocks: Block, as_json: bool) -> None:
    """Print the value as JSON, or the blocks as text."""
    if as_json:
        click.echo(json.dumps(value))
    else:
        print_blocks(*blocks)


def examples(*lines: str) -> str:
    """Return the examples section of a --help text."""
    return "\n".join(["\b", "Examples:", *(f"  fairwarning {line}" for line in lines)])


# --- Formatting ----------------------------------------------------------------------------------


def moment(at: str | None, since: str | None = None) -> str:
    """Format a time of the service; omit the date when it is that of `since`."""
    if not at:
        return ""
    day, _, time = at.partition("T")
    return time if since and since.startswith(day) else f"{day} {time}"


def until(at: str, now: float) -> str:
    """Return how far away a time is."""
    left = parse_date(at) - now
    return f"in {spoken(left)}" if left > 0 else "due now"


def summary(event: Json) -> StyledText:
    """Return the type of an event and when it starts, or its status."""
    style = _TYPES.get(event["type"], "cyan")
    if event["status"] == "Scheduled":
        when = moment(event["not_before"], event["created_at"])
        return StyledText(f"{event['type']} not before {when}", style)
    return StyledText(f"{event['type']} {event['status'].lower()}", f"bold {style}")


def events(items: Iterable[Json]) -> OutputTable:
    """Return a table of events."""
    rows = [(event["id"], summary(event), ", ".join(event["resources"])) for event in items]
    return OutputTable(("event", "schedule", "machines"), rows, whole="event")


def counted(count: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def pace(clock: Json) -> str:
    """Return how the service's clock runs."""
    if ahead := clock["ahead_seconds"]:
        return f"real time, {abs(ahead):g} s {'ahead of' if ahead > 0 else 'behind'} wall time"
    if not clock["virtual"]:
        return "real time"
    rate = f"{clock['rate']:g} times real time" if clock["rate"] else "stopped"
    return f"virtual, {rate}"


def stopped_clock_hint(
    service: ServiceTarget, *, stopped: bool | None = None, indent: str = ""
) -> list[Block]:
    """Return a hint if the clock does not run, for a user who waits; read it if it is unknown."""
    if stopped is None:
        stopped = not client.ask(service, "GET", "/api/clock")["rate"]
    advance = service.command_line("clock advance", "15m")
    return [f"{indent}The clock is stopped; advance it with `{advance}`."] if stopped else []


def tags(values: Mapping[str, str]) -> str:
    """Format tags as K=V, separated by commas."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


def pending(items: Sequence[Json], now: float, most: int = 5) -> list[Block]:
    """Return a line for each of the first pending events."""
    lines: list[Block] = []
    for event in items[:most]:
        names = event["resources"]
        machines = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
        text, style = summary(event)
        left = f" ({until(event['not_before'], now)})" if event["status"] == "Scheduled" else ""
        lines.append(StyledText(f"  {machines}: {text}{left}", style))
    if items[most:]:
        lines.append(f"  and {len(items) - most} more events")
    return lines


def power(machine: Json) -> StyledText:
    """Return the power state of a machine, and what is being done to it."""
    state, doing = machine["power"], machine["doing"]
    if doing:
        return StyledText(f"{state}, {doing} in progress", "bold")
    return StyledText(state, "green" if state == "running" else "dim")


# --- The history of an event, an operation or a machine (O7) -------------------------------------


def explain(service: ServiceTarget, *path: str, as_json: bool) -> None:
    """Print the history of what is at this path of the API."""
    history = client.ask(service, "GET", client.api_path(*path, "explain"))
    waits = history["awaits"] and not as_json
    hint = stopped_clock_hint(service) if waits else []
    print_result(history, *_history(history, hint), as_json=as_json)


def _history(history: Json, hint: list[Block]) -> list[Block]:
    """Return the title, the summary, what it waits for, and the steps with their durations."""
    output: list[Block] = [StyledText(history["title"], "bold"), history["summary"]]
    if history["awaits"]:
        output += [StyledText(f"Waiting for: {history['awaits']}", "yellow"), *hint]
    field_list = _history_fields(history)
    if any(field_list.fields.values()):
        output += ["", field_list]
    if history["steps"]:
        output += ["", _step_table(history["steps"])]
    return output


def _history_fields(history: Json) -> FieldList:
    return FieldList(
        {
            "notice": _duration(history["notice_seconds"]),
            "waited": _duration(history["waited_seconds"]),
            "impact": _duration(history["impact_seconds"]),
            "notified": ", ".join(
                f"{delivery['machine']} {_time(delivery['at'])}"
                for delivery in history["deliveries"]
            ),
            "approved by": ", ".join(
                f"{approval['by']} {_time(approval['at'])}" for approval in history["approvals"]
            ),
        }
    )


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else spoken(seconds)


def _time(at: str) -> str:
    return at.partition("T")[2]


def _step_table(steps: list[Json]) -> OutputTable:
    """Return a table of the steps. A step takes until the next one starts."""
    rows = []
    first = steps[0]["at"]
    ends = [step["after_seconds"] for step in steps[1:]]
    for number, step in enumerate(steps):
        duration = spoken(ends[number] - step["after_seconds"]) if number < len(ends) else ""
        rows.append((moment(step["at"], first), duration, step["text"]))
    return OutputTable(("time", "duration", "step"), rows)
