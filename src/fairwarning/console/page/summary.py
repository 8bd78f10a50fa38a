"""The fleet in numbers, on the start page: each number is a link to the list that it counts."""

from dataclasses import dataclass
from urllib.parse import urlencode

from fairwarning.console.api.responses import SummaryInfo
from fairwarning.console.page import words
from fairwarning.service.listing.summary import SOON_SECONDS

_ROLLOUTS = "Running", "Paused"


@dataclass(frozen=True)
class Figure:
    """A number, what it counts, and the list of that. `warns`: it asks for attention."""

    count: int
    text: str
    link: str
    warns: bool = False


@dataclass(frozen=True)
class FigureGroup:
    """Numbers that belong together."""

    title: str
    figures: list[Figure]


def figure_groups(summary: SummaryInfo) -> list[FigureGroup]:
    """Return the numbers of the start page."""
    return [
        FigureGroup("Machines", _machines(summary)),
        FigureGroup("Notice", _notice(summary)),
        FigureGroup("Events", _events(summary)),
        FigureGroup("Rollouts", _rollouts(summary)),
    ]


def _machines(summary: SummaryInfo) -> list[Figure]:
    return [
        Figure(count, power, _link("/machines", power=power))
        for power, count in summary.power.items()
    ] or [Figure(0, "machines", "/machines")]


def _notice(summary: SummaryInfo) -> list[Figure]:
    unpolled = summary.scopes_not_polled
    machines = words.count(summary.machines_not_polled, "machine")
    text = f"{words.noun(unpolled, 'scope')} that nobody polls"
    if unpolled:
        text += f": {machines} without notice"
    polled = summary.scopes - unpolled
    return [
        Figure(unpolled, text, _link("/machines", not_polled="true"), warns=bool(unpolled)),
        Figure(polled, f"{words.noun(polled, 'scope')} polled", "/machines"),
    ]


def _events(summary: SummaryInfo) -> list[Figure]:
    waiting = summary.unapproved
    soon = _link("/events", status="Scheduled", within=str(SOON_SECONDS))
    return [
        Figure(summary.soon, "start within an hour", soon, warns=bool(summary.soon)),
        Figure(waiting, "approved by nobody", _link("/events", unapproved="true")),
        *(
            Figure(
                each.count,
                f"{each.type} {each.status.lower()}",
                _link("/events", type=each.type, status=each.status),
            )
            for each in summary.events
        ),
    ]


def _rollouts(summary: SummaryInfo) -> list[Figure]:
    return [
        Figure(summary.rollouts.get(status, 0), status.lower(), _link("/rollouts", status=status))
        for status in _ROLLOUTS
    ]


def _link(path: str, **query: str) -> str:
    return f"{path}?{urlencode(query)}"
