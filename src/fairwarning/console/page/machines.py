"""A machine: all of it, and whatever may be done to it."""

from fairwarning.console.api.responses import MachineInfo
from fairwarning.console.page import words
from fairwarning.console.page.forms import FormDone
from fairwarning.console.page.preview import (
    OperationPreview,
    PreviewInput,
    PreviewText,
    fresh,
    preview,
)
from fairwarning.console.page.render import link
from fairwarning.console.page.request import Deeds, PageContent, PageRequest, Views
from fairwarning.core.errors import NotFound

_DURATION = PreviewInput("duration_seconds", "seconds", "9")
_KIND = PreviewInput(
    "kind",
    "as",
    "freeze",
    (("freeze", "Freeze"), ("reboot", "Reboot"), ("redeploy", "Redeploy")),
)
_USERS = "What users ask for"
_PLATFORM = "What the platform does"
_ACTIONS: tuple[tuple[str, str, str, tuple[PreviewInput, ...]], ...] = (
    (_USERS, "restart", "Restart", ()),
    (_USERS, "redeploy", "Redeploy", ()),
    (_USERS, "reimage", "Reimage", ()),
    (_USERS, "stop", "Stop", ()),
    (_USERS, "deallocate", "Deallocate", ()),
    (_USERS, "start", "Start", ()),
    (_USERS, "delete", "Delete", ()),
    (_PLATFORM, "freeze", "Freeze", (_DURATION,)),
    (_PLATFORM, "migrate", "Live-migrate", ()),
    (_PLATFORM, "maintain", "Maintain", (_KIND,)),
    (_PLATFORM, "degrade", "Degrade", (PreviewInput("days", "days ahead"),)),
    (_PLATFORM, "evict", "Evict", ()),
    (_PLATFORM, "recommend", "Recommend to leave", ()),
    (_PLATFORM, "fail", "Fail now", ()),
)
_GRAVE = frozenset({"delete", "evict", "fail"})
_LABELS = {action: label for _, action, label, _ in _ACTIONS}


async def show(visit: PageRequest) -> PageContent:
    """The machine with its events, its story, and what each operation would do to it now."""
    name = visit.named("name")
    machine = await visit.api.machine(name)
    data = {
        "machine": machine,
        "at": link(machine),
        "story": await visit.api.explain_machine(name),
        "deeds": await _choices(visit, machine) if visit.may else [],
    }
    return PageContent("machine.html", data)


async def _choices(
    visit: PageRequest, machine: MachineInfo
) -> list[tuple[str, list[OperationPreview]]]:
    name = f"{machine.scope}/{machine.name}"
    nothing = "Nothing changes." if machine.polled else "Nothing: nobody polls in its scope."
    groups: dict[str, list[OperationPreview]] = {_USERS: [], _PLATFORM: []}
    for heading, action, label, inputs in _ACTIONS:
        command = await visit.api.machine_command(name, action, fresh(), {})
        foreseen = await preview(visit.fleet, command)
        if not foreseen.text:  # advice, and nobody to give it to
            foreseen = PreviewText(nothing)
        kind = "grave" if action in _GRAVE else ""
        groups[heading].append(OperationPreview(action, label, foreseen, kind, inputs))
    return list(groups.items())


async def act(visit: PageRequest) -> FormDone:
    """Let something happen to it."""
    name, action, form = visit.named("name"), visit.named("action"), visit.form
    body: dict[str, object] = {}
    if (seconds := form.whole("duration_seconds", "seconds")) is not None:
        body["duration_seconds"] = seconds
    if (days := form.number("days", "days ahead")) is not None:
        body["days"] = days
    if kind := form.text("kind"):
        body["kind"] = kind
    answer = await visit.api.act(name, action, body, form.text("key"), visit.actor)
    try:
        to = link(await visit.api.machine(name))
    except NotFound:  # deleted, and at once
        to = "/"
    return FormDone(f"{_LABELS.get(action, action)}: {words.accepted(answer)}", to)


async def new(_: PageRequest) -> PageContent:
    """An empty form."""
    return PageContent("machine_new.html", {})


async def create(visit: PageRequest) -> FormDone:
    """One machine, or several of a name."""
    form = visit.form
    body: dict[str, object] = {
        name: value
        for name in ("name", "priority", "eviction", "size", "zone")
        if (value := form.text(name))
    }
    if (count := form.whole("count", "how many")) is not None:
        body["count"] = count
    made = (await visit.api.create_machines(body, form.text("key"), visit.actor)).machines
    return FormDone(f"{made[0].name} is there.", link(made[0]))


VIEWS: Views = [("/machines/new", new), ("/machines/{name:path}", show)]
DEEDS: Deeds = [
    ("/machines/new", create, new),
    ("/machines/{name:path}/{action}", act, show),
]
