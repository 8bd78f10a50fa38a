"""The pages of machines: a list with filters (O14); and each with its document and actions."""

import json
from shlex import quote

from fairwarning.console.api import bodies
from fairwarning.console.api.filters import MACHINE_FILTERS, machine_filter
from fairwarning.console.api.responses import MachineInfo
from fairwarning.console.page import words
from fairwarning.console.page.listing import cut_page, list_query
from fairwarning.console.page.preview import OperationPreview, PreviewInput, preview
from fairwarning.console.page.request import FormDone, PageContent, PageRequest, body
from fairwarning.console.page.words import link, new_key
from fairwarning.core.document import VERSIONS
from fairwarning.core.errors import Bug, NotFound, Refused
from fairwarning.core.model import EventStatus, EventType, Power
from fairwarning.core.times import iso

PREVIEW = "2024-07-09"
"""The api-version that the endpoint serves only if the fleet file turns it on (M2)."""
_VERSION = max(VERSIONS.keys() - {PREVIEW})

_DURATION = PreviewInput("duration_seconds", "seconds", "9")
_KIND = PreviewInput(
    "kind",
    "impact",
    "freeze",
    (("freeze", "Freeze"), ("reboot", "Reboot"), ("redeploy", "Redeploy")),
)
_MACHINE_FIELDS = "name", "priority", "eviction", "size", "zone"
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


async def index(request: PageRequest) -> PageContent:
    """Show a page of the machines that the filter allows."""
    query = list_query(request, tuple(MACHINE_FILTERS))
    await request.api.index.refresh()
    locations = await request.api.index.find_machines(machine_filter(request.query))
    shown, page = cut_page(query, locations)
    data = {
        "machines": await request.api.describe_machines(shown),
        "query": query,
        "page": page,
        "powers": list(Power),
        "types": list(EventType),
        "statuses": list(EventStatus),
    }
    return PageContent("machines.html", data)


async def show(request: PageRequest) -> PageContent:
    """Show the machine with its document, its events, its activity and its actions."""
    machine = await request.api.machine(request.path_param("name"))
    name = f"{machine.scope}/{machine.name}"
    published = await request.fleet.documents.fetch(machine.scope)
    text = published.body(_VERSION)  # as the endpoint reads it, without counting as a poll
    assert published.scope is not None  # `body` refuses otherwise
    # Another process records its polls every few minutes.
    (polled_at,) = await request.fleet.polled_at([published.scope])
    data = {
        "machine": machine,
        "at": link(machine),
        "explanation": await request.api.explain_machine(name),
        "actions": await _actions(request, machine) if request.can_edit else None,
        "document": json.dumps(json.loads(text), indent=2),
        "curl": _curl(machine),
        "exec": await _exec(request, machine),
        "polled_at": iso(int(polled_at)) if polled_at else None,
        "about": "about " if request.fleet.store.shared else "",
    }
    return PageContent("machine.html", data)


def _curl(machine: MachineInfo) -> str:
    """Return a command that reads the document; empty if no URL answers."""
    if not machine.url:
        return ""
    target = f"{machine.url}/metadata/scheduledevents?api-version={_VERSION}"
    return f'curl -H Metadata:true "{target}"'


async def _exec(request: PageRequest, machine: MachineInfo) -> str:
    """Return a command that runs a program inside the machine."""
    same_name = await request.fleet.reader.find_machines(name=machine.name)
    name = machine.name if len(same_name) == 1 else f"{machine.scope}/{machine.name}"
    arguments = f"-- {quote(name)} COMMAND" if name.startswith("-") else f"{quote(name)} -- COMMAND"
    return f"fairwarning exec {arguments}"


async def _actions(request: PageRequest, machine: MachineInfo) -> dict[str, object]:
    """Preview every action: the possible ones by heading, others by the reason of the refusal."""
    no_effect = "No effect." if machine.polled else "No effect: no machine in its scope polls."
    possible: dict[str, list[OperationPreview]] = {}
    refused: dict[str, list[str]] = {}
    for heading, action, label, inputs in _ACTIONS:
        name = f"{machine.scope}/{machine.name}"
        settings = bodies.ActSettings()
        command = await request.api.machine_command(name, action, settings, new_key())
        try:
            text = await preview(request.fleet, command)
        except (Refused, Bug) as error:
            refused.setdefault(error.message, []).append(label)
            continue
        text = text or no_effect  # a recommendation, but no machine polls for it
        kind = "danger" if action in _DANGEROUS else ""
        button = OperationPreview(action, label, text, kind, inputs)
        possible.setdefault(heading, []).append(button)
    return {"possible": possible, "refused": refused}


async def act(request: PageRequest) -> FormDone:
    """Start an action on the machine."""
    name, action, form = request.path_param("name"), request.path_param("action"), request.form
    settings = body(
        bodies.ActSettings,
        duration_seconds=form.integer("duration_seconds", "seconds"),
        days=form.number("days", "days ahead"),
        kind=form.text("kind") or None,
    )
    accepted = await request.api.act(name, action, settings, form.text("key"), request.actor)
    try:
        to = link(await request.api.machine(name))
    except NotFound:  # deleted without notice
        to = "/"
    return FormDone(f"{_LABELS.get(action, action)}: {words.describe_accepted(accepted)}", to)


async def new(request: PageRequest) -> PageContent:
    """Show the form for a new machine."""
    request.check_can_edit()
    return PageContent("machine_new.html", {})


async def create(request: PageRequest) -> FormDone:
    """Create one machine, or several with numbered names."""
    form = request.form
    texts = {name: form.text(name) or None for name in _MACHINE_FIELDS}
    count = form.integer("count", "the number of machines")
    machine = body(bodies.NewMachine, count=count, **texts)
    created = (await request.api.create_machines(machine, form.text("key"), request.actor)).machines
    return FormDone(f"{created[0].name} created.", link(created[0]))


VIEWS = (("/machines", index), ("/new/machine", new), ("/machines/{name:path}", show))
FORMS = (("/new/machine", create, new), ("/machines/{name:path}/{action}", act, show))
