"""A story, as the service explains an event, an operation or a machine, for people to read (O7)."""

from fairwarning.cli.blocks import Block, FieldList, OutputTable, StyledText
from fairwarning.cli.show import Json, moment
from fairwarning.core.times import spoken


def blocks(story: Json) -> list[Block]:
    """Title, summary, what is awaited, the steps with how long each took."""
    told: list[Block] = [StyledText(story["title"], "bold"), story["summary"]]
    if story["awaits"]:
        told.append(StyledText(f"Awaited: {story['awaits']}", "yellow"))
    facts = _facts(story)
    if any(facts.about.values()):
        told += ["", facts]
    if story["steps"]:
        told += ["", _steps(story["steps"])]
    return told


def _facts(story: Json) -> FieldList:
    return FieldList(
        {
            "notice": _length(story["notice_seconds"]),
            "waited": _length(story["waited_seconds"]),
            "impact": _length(story["impact_seconds"]),
            "told": ", ".join(f"{one['machine']} {_time(one['at'])}" for one in story["told"]),
            "approved by": ", ".join(
                f"{one['by']} {_time(one['at'])}" for one in story["approved"]
            ),
        }
    )


def _length(seconds: float | None) -> str:
    return "" if seconds is None else spoken(seconds)


def _time(at: str) -> str:
    return at.partition("T")[2]


def _steps(steps: list[Json]) -> OutputTable:
    """How long a step took is the time until the next one."""
    rows = []
    first = steps[0]["at"]
    ends = [step["after"] for step in steps[1:]]
    for number, step in enumerate(steps):
        took = spoken(ends[number] - step["after"]) if number < len(ends) else ""
        rows.append((moment(step["at"], first), took, step["text"]))
    return OutputTable(("at", "took", "what happened"), rows)
