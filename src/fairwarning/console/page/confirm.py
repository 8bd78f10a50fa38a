"""Questions before what is large or final: a page with the plan, then the form again (O14).

A form that needs a confirmation leads to `/confirm/...` with its fields in the query. The form of
that page has the same fields and `confirmed=yes`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from fairwarning.console.api import bodies, responses
from fairwarning.console.api.machines import ACTIONS
from fairwarning.console.page import rollouts, sets, words
from fairwarning.console.page.preview import preview
from fairwarning.console.page.request import FormDone, PageContent, PageRequest, View, parse_form
from fairwarning.console.page.words import link, new_key
from fairwarning.core.commands import DeleteSet, OperateInstances
from fairwarning.core.errors import Refused

_PREFIX = "/confirm"
_INSTANCES = "/sets/{name:path}/instances"
_QUERY_BYTES = 32 * 1024  # the port allows 64 KiB for all headers
_NOT_REPEATED = frozenset({"key", "confirmed", "count", "typed"})
_FINAL = {"delete": "Delete", "fail": "Fail"}  # actions on a machine
_OF_MANY = {"delete": 1, "stop": 2, "reimage": 2, "restart": 2, "redeploy": 2}
"""Actions on instances, and from how many on they need a confirmation."""
TYPED_ABOVE = 100
"""The user types the number of machines or events if it is above this."""


@dataclass(frozen=True)
class FormConfirmation:
    """A question, the plan as named values, and the button that goes ahead."""

    question: str
    plan: list[tuple[str, str]]
    button: str
    back: str  # the page that the user came from
    kind: str = "danger"  # CSS class of the button
    count: int = 0  # of machines, which the user types if there are many


Question = Callable[[PageRequest], Awaitable[FormConfirmation | None]]
"""Returns None if the form may go ahead; raises the error of a form that is refused anyway."""


async def confirmation_needed(request: PageRequest, path: str) -> FormDone | None:
    """Return the page to confirm a form on; None if the form may go ahead."""
    question = _QUESTIONS.get(path)
    if question is None:
        return None
    if request.form.text("confirmed") == "yes":
        check_typed(request)
        return None
    if path == _INSTANCES:
        request = await sets.with_all(request)
    if await question(request) is None:
        return None
    query = urlencode(_repeated(request))
    if len(query) > _QUERY_BYTES:
        message = "this names too much to be confirmed on a page; name scale sets or fewer scopes"
        raise Refused("BadForm", message)
    return FormDone("", f"{_PREFIX}{quote(request.request.scope['path'])}?{query}")


def check_typed(request: PageRequest) -> None:
    """Refuse a confirmation of many things without their number."""
    count = request.form.integer("count", "the number") or 0
    if count > TYPED_ABOVE and request.form.text("typed").replace(",", "") != str(count):
        raise Refused("NotConfirmed", f"nothing was changed; type {count} to go ahead")


def _repeated(request: PageRequest) -> list[tuple[str, str]]:
    """The fields of the form that the confirmation sends again; it has a key of its own."""
    return [(name, value) for name, value in request.form.pairs if name not in _NOT_REPEATED]


def _view(question: Question) -> View:
    async def show(request: PageRequest) -> PageContent:
        request = replace(request, form=parse_form(request.request.url.query))
        confirmation = await question(request)
        if confirmation is None:
            raise Refused("NothingToConfirm", "this needs no confirmation; go back and repeat it")
        path, fields = request.request.scope["path"], _repeated(request)
        data = {
            "confirmation": confirmation,
            "action": quote(path.removeprefix(_PREFIX)),
            "fields": fields,
            "count": confirmation.count if confirmation.count > TYPED_ABOVE else 0,
            "back": f"{quote(path)}?{urlencode(fields)}",  # where the forms of the clock lead
        }
        return PageContent("confirm.html", data)

    return show


# --- Questions ---


async def _start_rollout(request: PageRequest) -> FormConfirmation | None:
    settings = rollouts.settings(request.form)
    plan = await request.api.plan_rollout(settings)
    if plan.scopes <= 1:
        return None
    now = request.api.clock().now
    earliest, latest = (
        words.time_of_day(time, now) for time in (plan.earliest_end, plan.latest_end)
    )
    is_known = isinstance(settings.duration_seconds, int) or plan.kind == "freeze"
    impacts = "" if is_known else "; and the time that the impacts take, which is not known"
    more = plan.scopes_not_polled - len(plan.not_polled)
    named = ", ".join(plan.not_polled) + (f" and {more} more" if more else "")
    unpolled = f"{words.count(plan.scopes_not_polled, 'scope')}: {named}" if named else "none"
    return FormConfirmation(
        f"Start the rollout over {plan.scopes} scopes?",
        [
            ("Impact", plan.kind),
            ("Machines", str(plan.machines)),
            ("Scopes", f"{plan.scopes}, {plan.batch} at a time"),
            ("Steps", str(plan.steps)),
            ("Ends", f"{earliest} if all approve at once, {latest} if none does{impacts}"),
            *_windows(plan),
            ("No notice", unpolled),
        ],
        "Start",
        f"/new/rollout?{urlencode(_repeated(request))}",
        "primary",
    )


def _windows(plan: responses.RolloutPlan) -> list[tuple[str, str]]:
    """What comes on top of the time at which the rollout ends."""
    if not plan.scopes_with_windows:
        return []
    text = f"{words.count(plan.scopes_with_windows, 'scope')} to wait for, which comes on top"
    if never := plan.steps_without_window:
        text = f"{words.count(never, 'step')} will never begin: theirs are never open together"
    return [("Maintenance windows", text)]


async def _control_rollout(request: PageRequest) -> FormConfirmation | None:
    if request.path_param("action") != "abort":
        return None
    rollout = await request.api.rollout(request.path_param("id"))
    if rollout.ended_at:
        return None  # refused without a question
    machines = words.count(rollout.machines, "machine")
    plan = [
        ("Progress", f"{rollout.done} of {machines} done"),
        ("Effect", "Cancels scheduled events. Events in progress finish."),
    ]
    back = f"/rollouts/{quote(rollout.id)}"
    return FormConfirmation(f"Abort the {rollout.kind} of {machines}?", plan, "Abort", back)


async def _act_on_machine(request: PageRequest) -> FormConfirmation | None:
    name, action = request.path_param("name"), request.path_param("action")
    if action not in _FINAL:
        return None
    machine = await request.api.machine(name)
    settings = bodies.ActSettings()
    command = await request.api.machine_command(name, action, settings, new_key())
    plan = [
        ("Scope", machine.scope),
        ("Power", machine.power),
        ("Effect", await preview(request.fleet, command)),
    ]
    label = _FINAL[action]
    return FormConfirmation(f"{label} {machine.name}?", plan, label, link(machine))


async def _delete_set(request: PageRequest) -> FormConfirmation:
    scale_set = await request.api.set(request.path_param("name"))
    count = scale_set.capacity + scale_set.leaving
    command = DeleteSet(set=scale_set.name, operation=new_key())
    plan = [
        ("Instances", str(count)),
        ("Effect", await preview(request.fleet, command)),
    ]
    question = f"Delete {scale_set.name} and its instances?"
    back = f"/sets/{quote(scale_set.name)}"
    return FormConfirmation(question, plan, "Delete", back, count=count)


async def _scale(request: PageRequest) -> FormConfirmation | None:
    name = request.path_param("name")
    capacity = request.form.integer("capacity", "the number of instances")
    if capacity is None:
        return None  # refused without a question
    plan = await request.api.plan_scale(name, bodies.Capacity(capacity))
    if plan.deleted <= 1 and not plan.without_notice:
        return None
    count = words.count(plan.deleted, "instance")
    more = plan.deleted - len(plan.instances)
    shown = [
        ("Deletes", count),
        ("Instances", ", ".join(plan.instances) + (f" and {more:,} more" if more else "")),
        ("Notice", _notice(plan)),
    ]
    back = f"/sets/{quote(name)}?capacity={capacity}"
    question = f"Scale {name} to {capacity}, and delete {count}?"
    return FormConfirmation(question, shown, "Scale", back, count=plan.deleted)


def _notice(plan: responses.ScalePlan) -> str:
    """Describe how many instances get notice, and how much."""
    if plan.notice_seconds is None:
        return "none: they are deleted immediately"
    notice = words.duration(plan.notice_seconds)
    return f"{notice}, but none for {plan.without_notice:,}" if plan.without_notice else notice


async def _act_on_instances(request: PageRequest) -> FormConfirmation | None:
    name, instances = request.path_param("name"), request.form.instances()
    action, count = request.form.text("action"), len(set(instances))
    if count < _OF_MANY.get(action, count + 1) or not count:
        return None
    command = OperateInstances(
        set=name, operation=new_key(), action=ACTIONS[action], instances=tuple(instances)
    )
    scale_set = await request.api.set(name)
    plan = [
        ("Scale set", f"{name}, {words.count(scale_set.capacity, 'instance')}"),
        ("Effect", await preview(request.fleet, command)),
    ]
    label = action.capitalize()
    question = f"{label} {words.count(count, 'instance')} of {name}?"
    return FormConfirmation(question, plan, label, f"/sets/{quote(name)}", count=count)


_QUESTIONS: Mapping[str, Question] = {
    "/new/rollout": _start_rollout,
    "/rollouts/{id}/{action}": _control_rollout,
    "/machines/{name:path}/{action}": _act_on_machine,
    "/sets/{name:path}/delete": _delete_set,
    "/sets/{name:path}/scale": _scale,
    _INSTANCES: _act_on_instances,
}
VIEWS = [(f"{_PREFIX}{path}", _view(question)) for path, question in _QUESTIONS.items()]
