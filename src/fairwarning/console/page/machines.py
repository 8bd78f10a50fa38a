"""The pages of machines: a list with filters (O14); and each with its document and actions."""

import json
from shlex import quote

from fairwarning.console.api import bodies
from fairwarning.console.api.filters import MACHINE_FILTERS, machine_filter
from fairwarning.console.api.responses import MachineInfo
from fairwarning.console.api.section import parse
from fairwarning.console.page import words
from fairwarning.console.page.form_data import FormDone
from fairwarning.console.page.listing import cut_page, list_query
from fairwarning.console.page.machine_actions import LABELS, preview_actions
from fairwarning.console.page.render import link
from fairwarning.console.page.request import FormRoutes, PageContent, PageRequest, Views
from fairwarning.core.document import VERSIONS
from fairwarning.core.errors import NotFound
from fairwarning.core.model import EventStatus, EventType, Power, Scope
from fairwarning.core.times import iso
from fairwarning.service.fleet import Fleet

PREVIEW = "2024-07-09"
"""The api-version that the endpoint serves only if the fleet file turns it on (M2)."""
_VERSION = max(VERSIONS.keys() - {PREVIEW})


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
    scope = published.scope
    assert scope is not None  # `body` refuses otherwise
    data = {
        "machine": machine,
        "at": link(machine),
        "explanation": await request.api.explain_machine(name),
        "actions": await preview_actions(request, machine) if request.can_edit else None,
        "document": json.dumps(json.loads(text), indent=2),
        "curl": _curl(machine),
        "exec": await _exec(request, machine),
        "polled_at": await _polled_at(request.fleet, scope),
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


async def _polled_at(fleet: Fleet, scope: Scope) -> str | None:
    """Return the last poll of the scope; another process records its polls every few minutes."""
    (polled_at,) = await fleet.polled_at([scope])
    return iso(int(polled_at)) if polled_at else None


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
    accepted = await request.api.act(
        name, action, parse(bodies.ActSettings, body), form.text("key"), request.actor
    )
    try:
        to = link(await request.api.machine(name))
    except NotFound:  # deleted without notice
        to = "/"
    return FormDone(f"{LABELS.get(action, action)}: {words.describe_accepted(accepted)}", to)


async def new(request: PageRequest) -> PageContent:
    """Show the form for a new machine."""
    request.check_can_edit()
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
    machine = parse(bodies.NewMachine, body)
    created = (await request.api.create_machines(machine, form.text("key"), request.actor)).machines
    return FormDone(f"{created[0].name} created.", link(created[0]))


VIEWS: Views = [("/machines", index), ("/new/machine", new), ("/machines/{name:path}", show)]
FORMS: FormRoutes = [
    ("/new/machine", create, new),
    ("/machines/{name:path}/{action}", act, show),
]
