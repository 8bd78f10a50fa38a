"""The page of injected faults (M21)."""

from typing import Any

from fairwarning.console.api import bodies
from fairwarning.console.page.form_data import FormDone
from fairwarning.console.page.render import FAULTS
from fairwarning.console.page.request import FormRoutes, PageContent, PageRequest, Views


async def show(request: PageRequest) -> PageContent:
    """Show the active faults and a form to inject another."""
    page = request.api.faults()
    return PageContent("faults.html", {"faults": page.faults, "kinds": list(FAULTS.items())})


async def inject(request: PageRequest) -> FormDone:
    """Inject a fault, or replace it."""
    form = request.form
    fields: dict[str, Any] = {
        "count": form.integer("count", "the number of requests"),
        "seconds": form.number("seconds", "the duration"),
        "delay_seconds": form.number("delay_seconds", "the delay"),
        "machine": form.text("machine") or None,
        "scope": form.text("scope") or None,
    }
    settings = {name: value for name, value in fields.items() if value is not None}
    kind = form.text("kind")
    await request.api.put_fault(bodies.NewFault(kind=kind, **settings))
    return FormDone(f"Fault injected: {FAULTS.get(kind, kind)}.", "/faults")


async def clear(request: PageRequest) -> FormDone:
    """Clear all faults."""
    await request.api.clear_faults()
    return FormDone("All faults cleared.", "/faults")


VIEWS: Views = [("/faults", show)]
FORMS: FormRoutes = [("/faults", inject, show), ("/faults/clear", clear, show)]
