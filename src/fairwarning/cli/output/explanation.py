"""Formats the history of an event, an operation or a machine (O7)."""

from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import show
from fairwarning.cli.output.blocks import Block, FieldList, OutputTable, StyledText
from fairwarning.cli.output.show import Json, moment
from fairwarning.core.times import spoken


def explain(service: ServiceTarget, *path: str, as_json: bool) -> None:
    """Print the history of what is at this path of the API."""
    history = client.ask(service, "GET", client.api_path(*path, "explain"))
    show.print_result(history, *_blocks(history), as_json=as_json)


def _blocks(history: Json) -> list[Block]:
    """Return the title, the summary, what it waits for, and the steps with their durations."""
    output: list[Block] = [StyledText(history["title"], "bold"), history["summary"]]
    if history["awaits"]:
        output.append(StyledText(f"Waiting for: {history['awaits']}", "yellow"))
    field_list = _fields(history)
    if any(field_list.fields.values()):
        output += ["", field_list]
    if history["steps"]:
        output += ["", _steps(history["steps"])]
    return output


def _fields(history: Json) -> FieldList:
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


def _steps(steps: list[Json]) -> OutputTable:
    """Return a table of the steps. A step takes until the next one starts."""
    rows = []
    first = steps[0]["at"]
    ends = [step["after_seconds"] for step in steps[1:]]
    for number, step in enumerate(steps):
        duration = spoken(ends[number] - step["after_seconds"]) if number < len(ends) else ""
        rows.append((moment(step["at"], first), duration, step["text"]))
    return OutputTable(("time", "duration", "step"), rows)
