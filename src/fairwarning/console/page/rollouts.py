"""The pages of host rollouts (E7): start, follow, pause, resume, abort."""

from urllib.parse import quote

from fairwarning.console.api import bodies
from fairwarning.console.api.filters import one_of
from fairwarning.console.api.responses import RolloutInfo
from fairwarning.console.api.section import MAX_PAGE_SIZE
from fairwarning.console.page import words
from fairwarning.console.page.listing import cut_page, list_query
from fairwarning.console.page.preview import OperationPreview
from fairwarning.console.page.request import FormDone, FormFields, PageContent, PageRequest, body
from fairwarning.core.model import RolloutStatus
from fairwarning.service.listing.filters import EventFilter

_EVENTS = 20  # shown for a rollout
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
    """Show a page of rollouts, optionally of those with one status."""
    query = list_query(request, ("status",))
    status = one_of(RolloutStatus, request.query, "status")
    rollouts: list[RolloutInfo] = []
    after: str | None = ""
    while after is not None:
        part = await request.api.rollouts(after, MAX_PAGE_SIZE, status)
        rollouts += part.rollouts
        after = part.next
    shown, page = cut_page(query, rollouts)
    data = {"rollouts": shown, "query": query, "page": page, "statuses": list(RolloutStatus)}
    return PageContent("rollouts.html", data)


async def show(request: PageRequest) -> PageContent:
    """Show the progress of a rollout, its failures, what it waits for, and its events."""
    rollout = await request.api.rollout(request.path_param("id"))
    actions = [
        OperationPreview(action, label, about, kind)
        for action in _ACTIONS.get(rollout.status, ())
        for label, about, kind in (_BUTTONS[action],)
    ]
    live = await request.api.events(limit=_EVENTS, wanted=EventFilter(rollout=rollout.id))
    data = {"rollout": rollout, "actions": actions, "events": live.events}
    return PageContent("rollout.html", data)


async def control(request: PageRequest) -> FormDone:
    """Pause, resume or abort the rollout."""
    name, action = request.path_param("id"), request.path_param("action")
    await request.api.control_rollout(name, action, request.actor)
    return FormDone(_NOTICES.get(action, action), f"/rollouts/{quote(name)}")


async def new(request: PageRequest) -> PageContent:
    """Show the form for a new rollout; the query has the values of one that was not confirmed."""
    request.check_can_edit()
    return PageContent("rollout_new.html", {"given": dict(request.request.query_params)})


async def start(request: PageRequest) -> FormDone:
    """Start a rollout over the named scopes and sets, or over the whole fleet."""
    key = request.form.text("key")
    started = await request.api.start_rollout(settings(request.form), key, request.actor)
    return FormDone(
        f"Rollout started: {words.count(started.machines, 'machine')}.",
        f"/rollouts/{quote(started.id)}",
    )


def settings(form: FormFields) -> bodies.NewRollout:
    """Return the settings of a new rollout, as the API takes them."""
    return body(
        bodies.NewRollout,
        id=form.text("id") or None,
        kind=form.text("kind") or None,
        sets=form.text("sets").split() or None,
        scopes=form.text("scopes").split() or None,
        batch=form.integer("batch", "the number of concurrent scopes"),
        duration_seconds=form.integer("duration_seconds", "the impact duration"),
        halt_percent=form.integer("halt_percent", "the failure threshold"),
    )


VIEWS = (("/rollouts", index), ("/new/rollout", new), ("/rollouts/{id}", show))
FORMS = (("/new/rollout", start, new), ("/rollouts/{id}/{action}", control, show))
