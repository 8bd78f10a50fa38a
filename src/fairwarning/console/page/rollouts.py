"""Host rollouts (E7): started, watched, paused, resumed, aborted."""

from typing import Any
from urllib.parse import quote

from fairwarning.console.api.responses import EventInfo, RolloutInfo
from fairwarning.console.page.forms import FormDone
from fairwarning.console.page.preview import OperationPreview, PreviewText
from fairwarning.console.page.request import Deeds, PageContent, PageRequest, Views

_ROLLOUTS = 50
_EVENTS = 20  # of a rollout, shown
_SEARCHED = 1000  # of all that are there
_CHOICES = {
    "Running": ("pause", "abort"),
    "Paused": ("resume", "abort"),
}
_ABOUT = {
    "pause": ("Pause", "Nothing new begins; what was announced goes on.", ""),
    "resume": ("Resume", "It goes on where it stopped.", "main"),
    "abort": ("Abort", "It ends: scheduled events are cancelled, started ones run out.", "grave"),
}
_SAID = {"pause": "Paused.", "resume": "It goes on.", "abort": "Aborted."}


async def index(visit: PageRequest) -> PageContent:
    """All rollouts, a page of them at a time."""
    page = await visit.api.rollouts(visit.query("after"), _ROLLOUTS)
    return PageContent("rollouts.html", {"rollouts": page.rollouts, "next": page.next})


async def show(visit: PageRequest) -> PageContent:
    """How far one is, and which events it waits for."""
    rollout = await visit.api.rollout(visit.named("id"))
    choices = [
        OperationPreview(action, label, PreviewText(about), kind)
        for action in _CHOICES.get(rollout.status, ())
        for label, about, kind in (_ABOUT[action],)
    ]
    data = {"rollout": rollout, "deeds": choices, "events": await _events(visit, rollout)}
    return PageContent("rollout.html", data)


async def _events(visit: PageRequest, rollout: RolloutInfo) -> list[EventInfo]:
    """Those that are announced or under way for it."""
    page = await visit.api.events(limit=_SEARCHED)
    own = [event for event in page.events if event.operation.startswith(f"{rollout.id}/")]
    return own[:_EVENTS]


async def decide(visit: PageRequest) -> FormDone:
    """Pause, resume or abort."""
    name, action = visit.named("id"), visit.named("action")
    await visit.api.control_rollout(name, action, visit.actor)
    return FormDone(_SAID.get(action, action), f"/rollouts/{quote(name)}")


async def new(_: PageRequest) -> PageContent:
    """An empty form."""
    return PageContent("rollout_new.html", {})


async def start(visit: PageRequest) -> FormDone:
    """Over what was named; over the whole fleet if nothing was."""
    form = visit.form
    given: dict[str, Any] = {
        "id": form.text("id") or None,
        "kind": form.text("kind") or None,
        "sets": form.text("sets").split() or None,
        "scopes": form.text("scopes").split() or None,
        "batch": form.whole("batch", "scopes at once"),
        "duration_seconds": form.whole("duration_seconds", "seconds a machine is away"),
        "halt_percent": form.whole("halt_percent", "percent failed"),
    }
    kept = {name: value for name, value in given.items() if value is not None}
    started = await visit.api.start_rollout(kept, form.text("key"), visit.actor)
    return FormDone(f"Started over {started.machines} machines.", f"/rollouts/{quote(started.id)}")


VIEWS: Views = [("/rollouts", index), ("/rollouts/new", new), ("/rollouts/{id}", show)]
DEEDS: Deeds = [
    ("/rollouts/new", start, new),
    ("/rollouts/{id}/{action}", decide, show),
]
