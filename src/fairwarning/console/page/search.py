"""Search for one thing by its name or id, and the page of help.

Names and ids are looked up in the indexes of the store. What only contains the text is left to
the lists, to which the page of results leads.
"""

import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote

from fairwarning.console.page.request import FormDone, PageContent, PageRequest
from fairwarning.core.errors import NotFound
from fairwarning.core.model import Entity, Operation, Rollout, ScaleSet, Scope
from fairwarning.service.listing.filters import EventFilter

_SHOWN = 20  # names of a kind that begin with the text
_EVENT_ID = re.compile("[0-9A-Fa-f-]{4,36}")
_NAMED: dict[str, tuple[type[Entity], str]] = {
    "Scale set": (ScaleSet, "/sets/"),
    "Rollout": (Rollout, "/rollouts/"),
    "Operation": (Operation, "/operations/"),
    "Scope": (Scope, "/machines?scope="),
}


@dataclass(frozen=True)
class SearchResult:
    """Something with this name, or with one that begins so."""

    kind: str
    name: str
    link: str
    exact: bool


async def show(request: PageRequest) -> PageContent | FormDone:
    """Go to the only thing with this name; show all if there are several, or what is similar."""
    text = request.query("q")
    searched = _results(request, text) if text and text.isprintable() else None
    results = [result async for result in searched] if searched else []
    exact = [result for result in results if result.exact]
    only = exact or results
    if len(only) == 1:
        return FormDone("", only[0].link)
    return PageContent("search.html", {"q": text, "results": results})


async def _results(request: PageRequest, text: str) -> AsyncIterator[SearchResult]:
    machines = set()
    scope, _, name = text.rpartition("/")
    for place in await request.fleet.reader.find_machines(name=name):
        if scope in {"", place.scope}:
            link = f"/machines/{quote(place.scope)}/{quote(name)}"
            machines.add(place.scope)
            yield SearchResult("Machine", f"{name} in {place.scope}", link, exact=True)
    async for result in _events(request, text):
        yield result
    for kind, (entity, path) in _NAMED.items():
        for entity_id in await _names(request, entity, text):
            # A machine without others has a scope of its name, which is no other result.
            if not (entity is Scope and entity_id in machines):
                link = path + quote(entity_id, safe="")
                yield SearchResult(kind, entity_id, link, exact=entity_id == text)


async def _names(request: PageRequest, kind: type[Entity], text: str) -> list[str]:
    """Return names of a kind that begin with the text, itself first."""
    exact = await request.fleet.reader.read_all([(kind, text)])
    names = [text] if exact[kind, text] else []
    after = await request.fleet.reader.list_ids(kind, text, _SHOWN)
    return names + [name for name in after if name.startswith(text)]


async def _events(request: PageRequest, text: str) -> AsyncIterator[SearchResult]:
    """An event, also one that is over; or those to come whose ids begin so."""
    if not _EVENT_ID.fullmatch(text):
        return
    with suppress(NotFound):
        event = await request.api.event(text)
        yield SearchResult("Event", event.id, f"/events/{event.id}", exact=True)
        return
    page = await request.api.events(limit=_SHOWN, wanted=EventFilter(prefix=text.upper()))
    for event in page.events:
        machines = ", ".join(event.resources[:3])
        name = f"{event.type} of {machines}, {event.id}"
        yield SearchResult("Event", name, f"/events/{event.id}", exact=False)


async def about(_: PageRequest) -> PageContent:
    """Show what the page's words mean, and commands to copy."""
    return PageContent("help.html", {})


VIEWS = (("/search", show), ("/help", about))
