"""What concerns the whole service: its clock (O5), injected faults (M21) and webhooks."""

from fairwarning.console.api import bodies
from fairwarning.console.page import fleet, words
from fairwarning.console.page.request import FormDone, PageContent, PageRequest, body, local_path
from fairwarning.console.page.words import FAULTS
from fairwarning.core.errors import Conflict, Refused

_MINUTE_SECONDS = 60
_SUCCESS = range(200, 300)  # HTTP statuses


async def change_clock(request: PageRequest) -> FormDone:
    """Advance the clock by a button's seconds or by typed minutes, or set its rate."""
    form = request.form
    seconds, rate = form.number("advance", "advance"), form.number("rate", "rate")
    minutes = form.number("minutes", "minutes")
    if minutes is not None:
        seconds = minutes * _MINUTE_SECONDS
    back = local_path(form.text("back"))
    if rate is not None:
        await request.api.set_clock(bodies.ClockChange(rate=rate))
        return FormDone(f"The clock is {words.clock_rate(rate)}.", back)
    if seconds is None:
        raise Refused("NoTime", "enter how many minutes to advance the clock by")
    now = (await request.api.set_clock(bodies.ClockChange(advance_seconds=seconds))).now
    notice = f"Advanced by {words.duration(seconds)}. It is now {words.time_of_day(now, now)}."
    return FormDone(notice, back)


# --- Faults ---


async def faults(request: PageRequest) -> PageContent:
    """Show the active faults and a form to inject another."""
    active = request.api.faults().faults
    return PageContent("faults.html", {"faults": active, "kinds": list(FAULTS.items())})


async def inject(request: PageRequest) -> FormDone:
    """Inject a fault, or replace it."""
    form = request.form
    kind = form.text("kind")
    fault = body(
        bodies.NewFault,
        kind=kind,
        count=form.integer("count", "the number of requests"),
        seconds=form.number("seconds", "the duration"),
        delay_seconds=form.number("delay_seconds", "the delay"),
        machine=form.text("machine") or None,
        scope=form.text("scope") or None,
    )
    await request.api.put_fault(fault)
    return FormDone(f"Fault injected: {FAULTS.get(kind, kind)}.", "/faults")


async def clear(request: PageRequest) -> FormDone:
    """Clear all faults."""
    await request.api.clear_faults()
    return FormDone("All faults cleared.", "/faults")


# --- Webhooks ---


async def webhooks(request: PageRequest) -> PageContent:
    """Show all webhooks with their delivery state, and a form to create another."""
    return PageContent("webhooks.html", {"webhooks": (await request.api.webhooks()).webhooks})


async def create(request: PageRequest) -> FormDone:
    """Create a webhook; its secret is shown once, in the notice."""
    webhook = bodies.NewWebhook(name=request.form.text("name"), url=request.form.text("url"))
    created = await request.api.create_webhook(webhook, request.actor)
    notice = f"Webhook {created.name} created. Its secret, shown only now: {created.secret}"
    return FormDone(notice, "/webhooks")


async def test(request: PageRequest) -> FormDone:
    """Send a test message; a refusal by the receiver is shown beside the button."""
    name = request.path_param("name")
    status = (await request.api.test_webhook(name)).status
    if status not in _SUCCESS:
        raise Conflict("TestFailed", f"the receiver of {name!r} answered with status {status}")
    return FormDone(f"The receiver of {name} answered with status {status}.", "/webhooks")


async def remove(request: PageRequest) -> FormDone:
    """Remove a webhook."""
    name = request.path_param("name")
    await request.api.remove_webhook(name, request.actor)
    return FormDone(f"Webhook {name} removed.", "/webhooks")


VIEWS = (("/faults", faults), ("/webhooks", webhooks))
FORMS = (
    ("/clock", change_clock, fleet.show),
    ("/faults", inject, faults),
    ("/faults/clear", clear, faults),
    ("/webhooks", create, webhooks),
    ("/webhooks/{name}/test", test, webhooks),
    ("/webhooks/{name}/remove", remove, webhooks),
)
