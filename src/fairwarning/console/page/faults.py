"""Faults on demand (M21): what is in force, set and cleared."""

from typing import Any

from fairwarning.console.page.forms import FormDone
from fairwarning.console.page.render import FAULTS
from fairwarning.console.page.request import Deeds, PageContent, PageRequest, Views


async def show(visit: PageRequest) -> PageContent:
    """The faults in force, and a form for another."""
    page = visit.api.faults()
    return PageContent("faults.html", {"faults": page.faults, "kinds": list(FAULTS.items())})


async def put(visit: PageRequest) -> FormDone:
    """One more, or another in its place."""
    form = visit.form
    given: dict[str, Any] = {
        "count": form.whole("count", "so many requests"),
        "seconds": form.number("seconds", "so many seconds"),
        "delay_seconds": form.number("delay_seconds", "seconds late"),
        "machine": form.text("machine") or None,
        "scope": form.text("scope") or None,
    }
    kept = {name: value for name, value in given.items() if value is not None}
    kind = form.text("kind")
    await visit.api.put_fault({"kind": kind, **kept})
    return FormDone(f"From now on: {FAULTS.get(kind, kind)}.", "/faults")


async def clear(visit: PageRequest) -> FormDone:
    """All is well again."""
    await visit.api.clear_faults()
    return FormDone("No faults any more.", "/faults")


VIEWS: Views = [("/faults", show)]
DEEDS: Deeds = [("/faults", put, show), ("/faults/clear", clear, show)]
