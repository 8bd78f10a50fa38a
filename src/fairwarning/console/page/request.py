"""A request to the page, with its query and its form; and what functions that handle it return."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from fairwarning.console.api import Api
from fairwarning.console.api.filters import whole_number
from fairwarning.console.api.routes import read_body
from fairwarning.console.api.section import B, parse
from fairwarning.core.errors import Refused
from fairwarning.service.fleet import Fleet
from fairwarning.service.tokens import Forbidden

_MAX_LENGTH = 250  # of a query parameter
_BODY_BYTES = 64 * 1024
_MAX_FIELDS = 2000  # a set has at most 1000 instances to select


class FormFields:
    """The fields of a submitted form. An empty field counts as missing."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = pairs

    def text(self, name: str, default: str = "") -> str:
        """Return the field's text without surrounding whitespace."""
        return next((value.strip() for key, value in self.pairs if key == name), "") or default

    def all(self, name: str) -> list[str]:
        """Return the values of all fields of this name, such as selected checkboxes."""
        return [value.strip() for key, value in self.pairs if key == name and value.strip()]

    def number(self, name: str, what: str) -> float | None:
        """Return a number, or None if the field is empty."""
        text = self.text(name)
        try:
            value = float(text) if text else None
        except ValueError:
            value = float("nan")
        if value is not None and not abs(value) < 10**12:
            raise Refused("BadNumber", f"{what} must be a number, not {text[:40]!r}")
        return value

    def integer(self, name: str, what: str) -> int | None:
        """Return a whole number, or None if the field is empty."""
        value = self.number(name, what)
        if value is not None and not value.is_integer():
            raise Refused("BadNumber", f"{what} must be a whole number, not {value:g}")
        return None if value is None else int(value)

    def instances(self) -> list[int]:
        """Return the selected instances."""
        values = self.all("instance")
        if not all(value.isdecimal() and value.isascii() for value in values):
            raise Refused("BadInstance", "an instance is a whole number; select it in the list")
        return [int(value) for value in values]


@dataclass(frozen=True)
class FormDone:
    """The result of a form that succeeded: a notice, and the page to go to.

    If there is more to do, `again` has the fields to change before page.js sends the form again;
    without it, the user goes on at the page.
    """

    notice: str
    to: str
    again: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FormRefused:
    """The result of a form that was refused: its action, the reason, and its fields."""

    action: str
    message: str
    status: int = 400
    fields: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PageRequest:
    """A request with the API it works on. `failed` is the form that was refused."""

    request: Request
    api: Api
    actor: str = ""
    can_edit: bool = False
    failed: FormRefused | None = None
    form: FormFields = field(default_factory=lambda: FormFields([]))

    @property
    def fleet(self) -> Fleet:
        return self.api.fleet

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
        value = whole_number(self.query(name))
        if value is None and self.query(name):
            raise Refused("BadQuery", f"{name} must be a whole number of at most 18 digits")
        return value


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


# --- Reading ---


async def read_form(request: Request, most: int = _BODY_BYTES) -> FormFields:
    """Read a URL-encoded form of at most so many bytes."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise Refused("BadForm", "send the form as application/x-www-form-urlencoded")
    raw = await read_body(request, most, "BadForm")
    try:
        text = raw.decode("utf-8")
    except ValueError as error:
        raise Refused("BadForm", "the form is malformed; send it in UTF-8") from error
    return parse_form(text)


def parse_form(text: str) -> FormFields:
    """Read URL-encoded fields, from a form or the query of a URL."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError as error:
        message = f"the form is malformed; send at most {_MAX_FIELDS} fields, in UTF-8"
        raise Refused("BadForm", message) from error
    return FormFields(pairs)


def body(kind: type[B], /, **settings: object) -> B:
    """Return a body of the API; settings that are None are missing."""
    return parse(kind, {name: value for name, value in settings.items() if value is not None})


def local_path(path: str, default: str = "/") -> str:
    """Return a redirect target on this site; anything else becomes the default."""
    local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if local else default
