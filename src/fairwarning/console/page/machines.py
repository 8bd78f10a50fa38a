"""The page of a machine: its properties, its activity and its actions."""

from fairwarning.console.api.responses import MachineInfo
from fairwarning.console.page import words
from fairwarning.console.page.forms import FormDone
from fairwarning.console.page.preview import (
    OperationPreview,
    PreviewInput,
    PreviewText,
    new_key,
    preview,
)
from fairwarning.console.page.render import link
from fairwarning.console.page.request import FormRoutes, PageContent, PageRequest, Views
from fairwarning.core.errors import NotFound

_DURATION = PreviewInput("duration_seconds", "seconds", "9")
_KIND = PreviewInput(
    "kind",
    "impact",
    "freeze",
    (("freeze", "Freeze"), ("reboot", "Reboot"), ("redeploy", "Redeploy")),
)
_USER = "User operations"
_PLATFORM = "Platform events"
_ACTIONS: tuple[tuple[str, str, str, tuple[PreviewInput, ...]], ...] = (
    (_USER, "restart", "Restart", ()),
    (_USER, "redeploy", "Redeploy", ()),
    (_USER, "reimage", "Reimage", ()),
    (_USER, "stop", "Stop", ()),
    (_USER, "deallocate", "Deallocate", ()),
    (_USER, "start", "Start", ()),
    (_USER, "delete", "Delete", ()),
    (_PLATFORM, "freeze", "Freeze", (_DURATION,)),
    (_PLATFORM, "migrate", "Live migrate", ()),
    (_PLATFORM, "maintain", "Maintain", (_KIND,)),
    (_PLATFORM, "degrade", "Degrade", (PreviewInput("days", "days ahead"),)),
    (_PLATFORM, "evict", "Evict", ()),
    (_PLATFORM, "recommend", "Recommend rebalance", ()),
    (_PLATFORM, "fail", "Fail now", ()),
)
_DANGEROUS = frozenset({"delete", "evict", "fail"})
_LABELS = {action: label for _, action, label, _ in _ACTIONS}


async def show(request: PageRequest) -> PageContent:
    """Show the machine with its events, its activity, and a preview of each action."""
    name = request.path_param("name")
    machine = await request.api.machine(name)
    data = {
        "machine": machine,
        "at": link(machine),
        "explanation": await request.api.explain_machine(name),
        "actions": await _actions(request, machine) if request.can_edit else [],
    }
    return PageContent("machine.html", data)


async def _actions(
    request: PageRequest, machine: MachineInfo
) -> list[tuple[str, list[OperationPreview]]]:
    name = f"{machine.scope}/{machine.name}"
    no_effect = "No effect." if machine.polled else "No effect: no machine in its scope polls."
    groups: dict[str, list[OperationPreview]] = {_USER: [], _PLATFORM: []}
    for heading, action, label, inputs in _ACTIONS:
        command = await request.api.machine_command(name, action, new_key(), {})
        text = await preview(request.fleet, command)
        if not text.text:  # a recommendation, but no machine polls for it
            text = PreviewText(no_effect)
        kind = "danger" if action in _DANGEROUS else ""
        groups[heading].append(OperationPreview(action, label, text, kind, inputs))
    return list(groups.items())


async def act(request: PageRequest) -> FormDone:
    """Start an action on the machine."""
    name, action, form = request.path_param("name"), request.path_param("action"), request.form
    body: dict[str, object] = {}
    if (seconds := form.integer("duration_seconds", "seconds")) is not None:
        body["duration_seconds"] = seconds
    if (days := form.number("days", "days ahead")) is not None:
        body["days"] = days
    if kind := form.text("kind"):
        body["kind"] = kind
    accepted = await request.api.act(name, action, body, form.text("key"), request.actor)
    try:
        to = link(await request.api.machine(name))
    except NotFound:  # deleted without notice
        to = "/"
    return FormDone(f"{_LABELS.get(action, action)}: {words.describe_accepted(accepted)}", to)


async def new(_: PageRequest) -> PageContent:
    """Show the form for a new machine."""
    return PageContent("machine_new.html", {})


async def create(request: PageRequest) -> FormDone:
    """Create one machine, or several with numbered names."""
    form = request.form
    body: dict[str, object] = {
        name: value
        for name in ("name", "priority", "eviction", "size", "zone")
        if (value := form.text(name))
    }
    if (count := form.integer("count", "the number of machines")) is not None:
        body["count"] = count
    created = (await request.api.create_machines(body, form.text("key"), request.actor)).machines
    return FormDone(f"{created[0].name} created.", link(created[0]))


VIEWS: Views = [("/machines/new", new), ("/machines/{name:path}", show)]
FORMS: FormRoutes = [
    ("/machines/new", create, new),
    ("/machines/{name:path}/{action}", act, show),
]
