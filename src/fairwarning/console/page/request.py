"""One request to the page: what it asks, what it may do, and what it is shown."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from fairwarning.console.api import Api
from fairwarning.console.page.forms import FormDone, FormFields, FormRefused
from fairwarning.core.errors import Refused
from fairwarning.service.fleet import Fleet

_LONGEST = 250  # of what a query may say
_DIGITS = 18  # of a number in it


@dataclass(frozen=True)
class PageRequest:
    """A request, with what it works on. `failed` says which form on it was refused just now."""

    request: Request
    api: Api
    fleet: Fleet
    actor: str = ""
    may: bool = False  # change anything
    failed: FormRefused | None = None
    form: FormFields = field(default_factory=lambda: FormFields([]))

    def named(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def query(self, name: str) -> str:
        """A part of the query; empty if it is not there."""
        return self.request.query_params.get(name, "").strip()[:_LONGEST]

    def whole(self, name: str) -> int | None:
        """A number of the query."""
        text = self.query(name)
        if not text:
            return None
        if len(text) > _DIGITS or not (text.isascii() and text.isdecimal()):
            raise Refused("BadQuery", f"{name} must be a whole number of at most {_DIGITS} digits")
        return int(text)


@dataclass(frozen=True)
class PageContent:
    """A template, and what stands in it."""

    template: str
    data: Mapping[str, Any]


View = Callable[[PageRequest], Awaitable[PageContent]]
Deed = Callable[[PageRequest], Awaitable[FormDone]]
Views = list[tuple[str, View]]
Deeds = list[tuple[str, Deed, View]]
"""Where a form is posted to, what that does, and the page that shows why it was refused."""
