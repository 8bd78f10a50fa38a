"""Faults on demand (M21): what is in force, set and cleared."""

from typing import Any

from fairwarning.console.page.forms import Done
from fairwarning.console.page.render import FAULTS
from fairwarning.console.page.visit import Deeds, Shown, Views, Visit


async def show(visit: Visit) -> Shown:
    """The faults in force, and a form for another."""
    page = visit.api.faults()
    return Shown("faults.html", {"faults": page.faults, "kinds": list(FAULTS.items())})


async def put(visit: Visit) -> Done:
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
    return Done(f"From now on: {FAULTS.get(kind, kind)}.", "/faults")


async def clear(visit: Visit) -> Done:
    """All is well again."""
    await visit.api.clear_faults()
    return Done("No faults any more.", "/faults")


VIEWS: Views = [("/faults", show)]
DEEDS: Deeds = [("/faults", put, show), ("/faults/clear", clear, show)]
