"""Scale sets: made with or without termination notice (T8), changed, emptied."""

from typing import Any
from urllib.parse import quote

from fairwarning.console.api.responses import MachineInfo, ScaleSetInfo
from fairwarning.console.page import words
from fairwarning.console.page.forms import FormDone, FormFields
from fairwarning.console.page.preview import PreviewText, fresh, preview
from fairwarning.console.page.request import Deeds, PageContent, PageRequest, Views
from fairwarning.core.commands import DeleteSet, Scale
from fairwarning.core.errors import Refused

_INSTANCES = 100  # on a page


async def show(visit: PageRequest) -> PageContent:
    """Its model, its instances, and what each change would lead to."""
    name = visit.named("name")
    found = await visit.api.set(name)
    everyone = (await visit.api.machines(set_=name)).machines
    machines, following = _page(everyone, visit.whole("after"))
    data: dict[str, Any] = {"set": found, "machines": machines, "next": following}
    data |= await _foreseen(visit, found) if visit.may else {}
    return PageContent("set.html", data)


def _page(machines: list[MachineInfo], after: int | None) -> tuple[list[MachineInfo], int | None]:
    """Some instances, and after which to go on."""
    later = [one for one in machines if after is None or one.instance > after]
    shown = sorted(later, key=lambda one: one.instance)[:_INSTANCES]
    return shown, shown[-1].instance if len(later) > _INSTANCES else None


async def _foreseen(visit: PageRequest, found: ScaleSetInfo) -> dict[str, Any]:
    capacity = visit.whole("capacity")
    chosen = None
    if capacity is not None:
        chosen = {"capacity": capacity, "foreseen": await _scaled(visit, found, capacity)}
    outdated = words.count(len(found.outdated), "instance")
    return {
        "preview": chosen,
        "fewer": await _scaled(visit, found, max(found.capacity - 1, 0)),
        "upgrade": PreviewText(
            f"{outdated} will follow model {found.model}; nothing restarts."
            if found.outdated
            else f"All instances follow model {found.model} already."
        ),
        "gone": await preview(visit.fleet, DeleteSet(set=found.name, operation=fresh())),
    }


async def _scaled(visit: PageRequest, found: ScaleSetInfo, capacity: int) -> PreviewText:
    command = Scale(set=found.name, operation=fresh(), capacity=capacity)
    return await preview(visit.fleet, command)


async def scale(visit: PageRequest) -> FormDone:
    """So many instances from now on."""
    name = visit.named("name")
    capacity = visit.form.whole("capacity", "the number of instances")
    if capacity is None:
        raise Refused("NoCapacity", "say how many instances there are to be")
    answer = await visit.api.scale_set(
        name, {"capacity": capacity}, visit.form.text("key"), visit.actor
    )
    return FormDone(f"Scaled to {capacity}: {words.accepted(answer)}", _at(name))


async def notice(visit: PageRequest) -> FormDone:
    """Termination notification on or off, and its delay: a new model (T3)."""
    name = visit.named("name")
    changed = await visit.api.update_set(
        name, {"terminate_notice": _notice(visit.form)}, visit.actor
    )
    return FormDone(f"Model {changed.model}: {_said(changed)}.", _at(name))


async def upgrade(visit: PageRequest) -> FormDone:
    """All instances to the newest model."""
    name = visit.named("name")
    changed = await visit.api.upgrade_set(name, {}, visit.actor)
    return FormDone(f"All instances follow model {changed.model}.", _at(name))


async def act(visit: PageRequest) -> FormDone:
    """Something for the instances that are ticked."""
    name, action, chosen = visit.named("name"), visit.form.text("action"), visit.form.instances()
    if not chosen:
        raise Refused("NoInstances", "tick the instances it is for")
    if action == "upgrade":
        changed = await visit.api.upgrade_set(name, {"instances": chosen}, visit.actor)
        return FormDone(f"They follow model {changed.model}.", _at(name))
    answer = await visit.api.act_on_set(
        name, action, {"instances": chosen}, visit.form.text("key"), visit.actor
    )
    return FormDone(f"{action.capitalize()}: {words.accepted(answer)}", _at(name))


async def delete(visit: PageRequest) -> FormDone:
    """The whole set goes, each instance with its notice."""
    name = visit.named("name")
    answer = await visit.api.delete_set(name, visit.form.text("key"), visit.actor)
    # Without notice it is gone already, and its page with it.
    to = _at(name) if answer.events else "/"
    return FormDone(f"{name} is deleted: {words.accepted(answer)}", to)


async def new(_: PageRequest) -> PageContent:
    """An empty form."""
    return PageContent("set_new.html", {})


async def create(visit: PageRequest) -> FormDone:
    """With termination notice where that is on."""
    form = visit.form
    capacity = form.whole("capacity", "the number of instances")
    if capacity is None:
        raise Refused("NoCapacity", "say how many instances there are to be")
    kept: dict[str, Any] = {
        key: value
        for key in ("priority", "eviction", "size", "zone", "upgrade", "scale_in")
        if (value := form.text(key))
    }
    kept |= {"name": form.text("name"), "capacity": capacity, "terminate_notice": _notice(form)}
    made = await visit.api.create_set(kept, form.text("key"), visit.actor)
    count = words.count(made.capacity, "instance")
    return FormDone(f"{made.name} is there: {count}, {_said(made)}.", _at(made.name))


def _at(name: str) -> str:
    return f"/sets/{quote(name)}"


def _notice(form: FormFields) -> str | None:
    """The delay as the model has it (T1); what it may be is decided further in."""
    if form.text("notify") != "on":
        return None
    minutes = form.whole("delay", "the termination delay")
    if minutes is None:
        raise Refused("NoDelay", "say how many minutes the termination delay is: 5 to 15")
    return f"PT{minutes}M"


def _said(found: ScaleSetInfo) -> str:
    return "with termination notice" if found.terminate_notice else "without termination notice"


VIEWS: Views = [("/sets/new", new), ("/sets/{name:path}", show)]
DEEDS: Deeds = [
    ("/sets/new", create, new),
    ("/sets/{name:path}/scale", scale, show),
    ("/sets/{name:path}/notice", notice, show),
    ("/sets/{name:path}/upgrade", upgrade, show),
    ("/sets/{name:path}/instances", act, show),
    ("/sets/{name:path}/delete", delete, show),
]
