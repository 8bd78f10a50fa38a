"""The pages of host rollouts (E7): start, follow, pause, resume, abort."""

from typing import Any
from urllib.parse import quote

from fairwarning.console.api.responses import EventInfo, RolloutInfo
from fairwarning.console.page import words
from fairwarning.console.page.forms import FormDone
from fairwarning.console.page.preview import OperationPreview, PreviewText
from fairwarning.console.page.request import FormRoutes, PageContent, PageRequest, Views

_ROLLOUTS = 50  # on a page
_EVENTS = 20  # shown for a rollout
_MAX_SEARCHED = 1000  # live events searched for those of a rollout
_ACTIONS = {
    "Running": ("pause", "abort"),
    "Paused": ("resume", "abort"),
}
_BUTTONS = {
    "pause": ("Pause", "Starts no new steps. Scheduled events go ahead.", ""),
    "resume": ("Resume", "Continues the rollout where it stopped.", "primary"),
    "abort": ("Abort", "Cancels scheduled events. Events in progress finish.", "danger"),
}
_NOTICES = {"pause": "Rollout paused.", "resume": "Rollout resumed.", "abort": "Rollout aborted."}


async def index(request: PageRequest) -> PageContent:
    """Show a page of rollouts."""
    page = await request.api.rollouts(request.query("after"), _ROLLOUTS)
    return PageContent("rollouts.html", {"rollouts": page.rollouts, "next": page.next})


async def show(request: PageRequest) -> PageContent:
    """Show the progress of a rollout and its live events."""
    rollout = await request.api.rollout(request.path_param("id"))
    actions = [
        OperationPreview(action, label, PreviewText(about), kind)
        for action in _ACTIONS.get(rollout.status, ())
        for label, about, kind in (_BUTTONS[action],)
    ]
    data = {"rollout": rollout, "actions": actions, "events": await _events(request, rollout)}
    return PageContent("rollout.html", data)


async def _events(request: PageRequest, rollout: RolloutInfo) -> list[EventInfo]:
    """Return the rollout's events that are scheduled or in progress."""
    page = await request.api.events(limit=_MAX_SEARCHED)
    own = [event for event in page.events if event.operation.startswith(f"{rollout.id}/")]
    return own[:_EVENTS]


async def control(request: PageRequest) -> FormDone:
    """Pause, resume or abort the rollout."""
    name, action = request.path_param("id"), request.path_param("action")
    await request.api.control_rollout(name, action, request.actor)
    return FormDone(_NOTICES.get(action, action), f"/rollouts/{quote(name)}")


async def new(_: PageRequest) -> PageContent:
    """Show the form for a new rollout."""
    return PageContent("rollout_new.html", {})


async def start(request: PageRequest) -> FormDone:
    """Start a rollout over the named scopes and sets, or over the whole fleet."""
    form = request.form
    fields: dict[str, Any] = {
        "id": form.text("id") or None,
        "kind": form.text("kind") or None,
        "sets": form.text("sets").split() or None,
        "scopes": form.text("scopes").split() or None,
        "batch": form.integer("batch", "the number of concurrent scopes"),
        "duration_seconds": form.integer("duration_seconds", "the impact duration"),
        "halt_percent": form.integer("halt_percent", "the failure threshold"),
    }
    settings = {name: value for name, value in fields.items() if value is not None}
    started = await request.api.start_rollout(settings, form.text("key"), request.actor)
    return FormDone(
        f"Rollout started: {words.count(started.machines, 'machine')}.",
        f"/rollouts/{quote(started.id)}",
    )


VIEWS: Views = [("/rollouts", index), ("/rollouts/new", new), ("/rollouts/{id}", show)]
FORMS: FormRoutes = [
    ("/rollouts/new", start, new),
    ("/rollouts/{id}/{action}", control, show),
]
