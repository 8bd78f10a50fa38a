"""Types of event, their notice and where they come from, from the rules themselves."""

from fairwarning.core.document import VERSIONS
from fairwarning.core.limits import (
    DEGRADE_MAX_SECONDS,
    TERMINATE_MAX_SECONDS,
    TERMINATE_MIN_SECONDS,
)
from fairwarning.core.model import EventType, Rules
from fairwarning.core.operation_rules import _NOTICES, OPERATION_RULES, OperationRule
from fairwarning.machines.simulated import DURATIONS_SECONDS
from tests.docs.chapters.page import code, page, seconds, table

_MEANINGS = {
    EventType.FREEZE: "stands still for some seconds; memory and open files stay",
    EventType.REBOOT: "restarts; memory is lost",
    EventType.REDEPLOY: "moves to another host; memory and the temporary disk are lost",
    EventType.PREEMPT: "a Spot machine, is taken back",
    EventType.TERMINATE: "is deleted",
    EventType.SPOT_REBALANCE: "a Spot machine, is advised to leave; nothing happens to it",
}


def write() -> str:
    """The page."""
    return page(
        "Events and notice",
        "What a machine can be told, how long before, and who causes it. "
        "[The life of an event](../life-of-an-event.md) explains the words.",
        "## Types",
        "Notice is the time from an event's creation to its NotBefore, unless a "
        "[setting](settings.md#rules) changes it. A version of the document that is older than a "
        "type does not show it.",
        table(
            ["`EventType`", "the machine", "notice", "setting", "from api-version"],
            [_type(kind) for kind in EventType],
        ),
        "## Where they come from",
        "An operation that announces nothing happens at once, and so does every operation in a "
        "scope that nobody polls. The last column is how long it takes on a simulated machine; "
        "one that runs with [`fairwarning exec`](../exec.md) takes as long as it takes.",
        table(
            [
                "operation",
                "`EventType`",
                "`EventSource`",
                "notice",
                "then, simulated",
                "`Description`",
            ],
            [
                _origin(command.__name__, kind, one)
                for (command, kind), one in OPERATION_RULES.items()
            ],
        ),
        "`migrate` is a freeze of 5 seconds with a description of its own. A Spot machine gets no "
        "Terminate.",
        "## What each api-version shows",
        table(
            [
                "api-version",
                "types",
                "`Description`",
                "`EventSource`",
                "`DurationInSeconds`",
                "`NotBefore`",
            ],
            [_version(version) for version in VERSIONS],
        ),
        "2024-07-09 is there only with `preview = true` in [`[metadata]`](settings.md#metadata).",
    )


def _type(kind: EventType) -> list[str]:
    first = next(version for version, view in VERSIONS.items() if kind in view.types)
    if kind is EventType.TERMINATE:
        least, most = seconds(TERMINATE_MIN_SECONDS), seconds(TERMINATE_MAX_SECONDS)
        return [code(kind), _MEANINGS[kind], f"{least} to {most}", "`terminate_notice`", first]
    setting = _NOTICES[kind]
    notice = seconds(getattr(Rules(), setting))
    return [code(kind), _MEANINGS[kind], notice, f"`{setting}`", first]


def _origin(command: str, kind: object, origin: OperationRule) -> list[str]:
    name = command.lower() + (f" ({kind})" if kind else "")
    takes = seconds(DURATIONS_SECONDS[origin.impact]) if origin.impact else "nothing"
    event = code(origin.event) if origin.event else "none"
    source = code(origin.source) if origin.event else ""
    return [name, event, source, _notice(command, origin), takes, origin.text]


def _notice(command: str, origin: OperationRule) -> str:
    if origin.event is None:
        return "none"
    if origin.sudden:
        return "none: it has started"
    if command == "Degrade":
        return f"up to {seconds(DEGRADE_MAX_SECONDS)}"
    if origin.event is EventType.TERMINATE:
        return "as its model says, or none"
    return seconds(getattr(Rules(), _NOTICES[origin.event]))


def _version(version: str) -> list[str]:
    view = VERSIONS[version]
    yes = {True: "yes", False: ""}
    types = (
        "all"
        if view.types == frozenset(EventType)
        else code(*(t for t in EventType if t in view.types))
    )
    date = "ISO 8601" if view.preview else "RFC 1123"
    return [version, types, yes[view.description], yes[view.source], yes[view.duration], date]
