"""The pages of scale sets: create with or without termination notice (T8), change, delete."""

from contextlib import suppress
from dataclasses import replace
from urllib.parse import quote

from fairwarning.console.api import bodies
from fairwarning.console.api.responses import ScaleSetInfo
from fairwarning.console.api.section import MAX_PAGE_SIZE
from fairwarning.console.page import words
from fairwarning.console.page.listing import cut_page, list_query
from fairwarning.console.page.request import FormDone, FormFields, PageContent, PageRequest, body
from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import ScaleSet
from fairwarning.service.listing.filters import MachineFilter
from fairwarning.service.lookup import MachineLocation

_TEXT_FIELDS = "priority", "eviction", "size", "upgrade", "scale_in"


async def index(request: PageRequest) -> PageContent:
    """Show a page of the scale sets whose names contain the filter."""
    query = list_query(request, ("q",))
    shown, page = cut_page(query, await _names(request))
    sets = []
    for name in shown:
        with suppress(NotFound):  # deleted in the meantime
            sets.append(await request.api.set(name))
    return PageContent("sets.html", {"sets": sets, "query": query, "page": page})


async def _names(request: PageRequest) -> list[str]:
    """Return the names of the sets that the filter allows, in order."""
    text, after = request.query("q").lower(), ""
    matching: list[str] = []
    while ids := await request.fleet.reader.list_ids(ScaleSet, after, MAX_PAGE_SIZE):
        matching += [name for name in ids if text in name.lower()]
        after = ids[-1]
    return matching


async def show(request: PageRequest) -> PageContent:
    """Show the set's model and instances."""
    name = request.path_param("name")
    scale_set = await request.api.set(name)
    query = list_query(request, ("capacity",))
    shown, page = cut_page(query, await _instances(request, name))
    data = {
        "set": scale_set,
        "capacity": request.query_integer("capacity"),  # of a form that was not confirmed
        "machines": await request.api.describe_machines(shown),
        "query": query,
        "page": page,
    }
    return PageContent("set.html", data)


async def _instances(request: PageRequest, name: str) -> list[MachineLocation]:
    """Return the instances of a set by number."""
    await request.api.index.refresh()
    return await request.api.index.find_machines(MachineFilter(set=name))


async def scale(request: PageRequest) -> FormDone:
    """Set the number of instances."""
    name = request.path_param("name")
    capacity = request.form.integer("capacity", "the number of instances")
    if capacity is None:
        raise Refused("NoCapacity", "enter how many instances the set is to have")
    accepted = await request.api.scale_set(
        name, bodies.Capacity(capacity), request.form.text("key"), request.actor
    )
    return FormDone(f"Scaled to {capacity}: {words.describe_accepted(accepted)}", _path(name))


async def notice(request: PageRequest) -> FormDone:
    """Change termination notification, which makes a new model (T3)."""
    name = request.path_param("name")
    changed = await request.api.update_set(
        name, bodies.SetChanges(terminate_notice=_notice(request.form)), request.actor
    )
    return FormDone(f"Model {changed.model}: {_notice_text(changed)}.", _path(name))


async def upgrade(request: PageRequest) -> FormDone:
    """Upgrade all instances to the latest model."""
    name = request.path_param("name")
    changed = await request.api.upgrade_set(name, bodies.Instances(), request.actor)
    return FormDone(f"All instances use model {changed.model}.", _path(name))


async def act(request: PageRequest) -> FormDone:
    """Start an action on the selected instances."""
    request = await with_all(request)
    name, action = request.path_param("name"), request.form.text("action")
    instances = request.form.instances()
    if not instances:
        raise Refused("NoInstances", "select at least one instance")
    if action == "upgrade":
        changed = await request.api.upgrade_set(name, bodies.Instances(instances), request.actor)
        return FormDone(f"The selected instances use model {changed.model}.", _path(name))
    accepted = await request.api.act_on_set(
        name, action, bodies.Instances(instances), request.form.text("key"), request.actor
    )
    return FormDone(f"{action.capitalize()}: {words.describe_accepted(accepted)}", _path(name))


async def with_all(request: PageRequest) -> PageRequest:
    """Return the request with every instance of the set selected, if its form says `all`."""
    if request.form.text("all") != "yes":
        return request
    locations = await _instances(request, request.path_param("name"))
    pairs = [pair for pair in request.form.pairs if pair[0] not in {"all", "instance"}]
    pairs += [("instance", str(location.machine.instance)) for location in locations]
    return replace(request, form=FormFields(pairs))


async def delete(request: PageRequest) -> FormDone:
    """Delete the set; each instance gets its notice first."""
    name = request.path_param("name")
    accepted = await request.api.delete_set(name, request.form.text("key"), request.actor)
    # Without notice the set is already deleted, and so is its page.
    to = _path(name) if accepted.events else "/"
    return FormDone(f"Deletion of {name}: {words.describe_accepted(accepted)}", to)


async def new(request: PageRequest) -> PageContent:
    """Show the form for a new scale set."""
    request.check_can_edit()
    return PageContent("set_new.html", {})


async def create(request: PageRequest) -> FormDone:
    """Create a scale set, with termination notice if it is turned on."""
    form = request.form
    capacity = form.integer("capacity", "the number of instances")
    if capacity is None:
        raise Refused("NoCapacity", "enter how many instances the set is to have")
    texts = {name: form.text(name) or None for name in _TEXT_FIELDS}
    scale_set = body(
        bodies.NewSet,
        name=form.text("name"),
        capacity=capacity,
        terminate_notice=_notice(form),
        zones=[zone.strip() for zone in form.text("zones").split(",") if zone.strip()],
        **texts,
    )
    created = await request.api.create_set(scale_set, form.text("key"), request.actor)
    count = words.count(created.capacity, "instance")
    return FormDone(
        f"{created.name} created: {count}, {_notice_text(created)}.", _path(created.name)
    )


def _path(name: str) -> str:
    return f"/sets/{quote(name)}"


def _notice(form: FormFields) -> str | None:
    """Return the delay in the format of the model (T1); the engine checks its range."""
    if form.text("notify") != "on":
        return None
    minutes = form.integer("delay", "the termination delay")
    if minutes is None:
        raise Refused("NoDelay", "enter a termination delay of 5 to 15 minutes")
    return f"PT{minutes}M"


def _notice_text(scale_set: ScaleSetInfo) -> str:
    return "with termination notice" if scale_set.terminate_notice else "without termination notice"


VIEWS = (("/sets", index), ("/new/set", new), ("/sets/{name:path}", show))
FORMS = (
    ("/new/set", create, new),
    ("/sets/{name:path}/scale", scale, show),
    ("/sets/{name:path}/notice", notice, show),
    ("/sets/{name:path}/upgrade", upgrade, show),
    ("/sets/{name:path}/instances", act, show),
    ("/sets/{name:path}/delete", delete, show),
)
