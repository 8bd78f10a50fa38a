"""Event types, their notice and the operations that cause them, from the rules themselves."""

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
    EventType.FREEZE: "pauses for some seconds; memory and open files are kept",
    EventType.REBOOT: "restarts; memory is lost",
    EventType.REDEPLOY: "moves to another host; memory and the temporary disk are lost",
    EventType.PREEMPT: "is evicted (Spot machines)",
    EventType.TERMINATE: "is deleted",
    EventType.SPOT_REBALANCE: "should be replaced (Spot machines); nothing happens to it",
}


def write() -> str:
    """Return the page."""
    return page(
        "Events and notice",
        "Event types, their notice, and the operations that cause them. "
        "[Event lifecycle](../event-lifecycle.md) explains the terms.",
        "## Types",
        "Notice is the time from an event's creation to its NotBefore. The table shows the "
        "defaults; [settings](settings.md#rules) change them. An api-version that is older than a "
        "type does not list events of that type.",
        table(
            ["`EventType`", "the machine", "notice", "setting", "from api-version"],
            [_type(kind) for kind in EventType],
        ),
        "## Operations",
        "An operation without an event is carried out at once, and so is every operation in a "
        "scope that no machine polls. *Simulated duration* is the duration of the impact on a "
        "simulated machine; with [`fairwarning exec`](../exec.md) it is the time that the program "
        "takes to end, and `boot_seconds` for one that boots.",
        table(
            [
                "operation",
                "`EventType`",
                "`EventSource`",
                "notice",
                "simulated duration",
                "`Description`",
            ],
            [
                _origin(command.__name__, kind, rule)
                for (command, kind), rule in OPERATION_RULES.items()
            ],
        ),
        "`migrate` is a freeze of 5 seconds with its own description. Spot machines get no "
        "Terminate event.",
        "## Types and members by api-version",
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
        "2024-07-09 needs `preview = true` in [`[metadata]`](settings.md#metadata).",
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
        return "none: already started"
    if command == "Degrade":
        return f"up to {seconds(DEGRADE_MAX_SECONDS)}"
    if origin.event is EventType.TERMINATE:
        return "as set in its model, or none"
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
