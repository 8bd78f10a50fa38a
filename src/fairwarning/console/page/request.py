"""A request to the page, and the types of the functions that handle it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from fairwarning.console.api import Api
from fairwarning.console.page.form_data import FormDone, FormFields, FormRefused
from fairwarning.core.errors import Refused
from fairwarning.service.fleet import Fleet
from fairwarning.service.tokens import Forbidden

_MAX_LENGTH = 250  # of a query parameter
_MAX_DIGITS = 18  # of a number in the query


@dataclass(frozen=True)
class PageRequest:
    """A request with the API and fleet it works on. `failed` is the form that was refused."""

    request: Request
    api: Api
    fleet: Fleet
    actor: str = ""
    can_edit: bool = False
    failed: FormRefused | None = None
    form: FormFields = field(default_factory=lambda: FormFields([]))

    def path_param(self, name: str) -> str:
        """Return a path parameter."""
        return str(self.request.path_params[name])

    def check_can_edit(self) -> None:
        """Raise `Forbidden` for a reader."""
        if not self.can_edit:
            raise Forbidden("Forbidden", "your token is read-only; log in with an operator's token")

    def query(self, name: str) -> str:
        """Return a query parameter; empty if it is missing."""
        return self.request.query_params.get(name, "").strip()[:_MAX_LENGTH]

    def query_integer(self, name: str) -> int | None:
        """Return a query parameter that is a whole number; None if it is missing."""
        text = self.query(name)
        if not text:
            return None
        if len(text) > _MAX_DIGITS or not (text.isascii() and text.isdecimal()):
            message = f"{name} must be a whole number of at most {_MAX_DIGITS} digits"
            raise Refused("BadQuery", message)
        return int(text)


@dataclass(frozen=True)
class PageContent:
    """A template and its variables."""

    template: str
    data: Mapping[str, Any]


View = Callable[[PageRequest], Awaitable[PageContent | FormDone]]
"""Returns a page, or where to go instead."""
FormHandler = Callable[[PageRequest], Awaitable[FormDone]]
Views = list[tuple[str, View]]
FormRoutes = list[tuple[str, FormHandler, View]]
"""The path that a form posts to, its handler, and the page that shows a refused form again."""
