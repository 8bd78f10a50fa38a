"""Endpoints of the operator API: methods of its sections, and how requests reach them (C4).

`endpoint` declares one. All else is in the method itself: the first line of its docstring is the
summary, the type that it returns is the response, and its parameters say what a request contains.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from inspect import Parameter, getdoc, isawaitable, signature
from typing import Any, TypeVar, get_args, get_type_hints

from starlette.requests import Request

from fairwarning.console.api import bodies, filters
from fairwarning.console.api.section import MAX_PAGE_SIZE, ApiSection, parse
from fairwarning.core.errors import Refused
from fairwarning.service.listing.filters import EventFilter, MachineFilter
from fairwarning.service.listing.journal import JournalFilter
from fairwarning.service.tokens import TokenClaims

PATH_PARAMETER = re.compile(r"{(\w+)(?::path)?}")
NEXT_PAGE = {"after": "`next` of the previous page.", "limit": f"Page size, 1 to {MAX_PAGE_SIZE}."}
"""The query parameters of a list."""

_ATTRIBUTE = "endpoint"  # of a method
_MOST = 10**18
_RANGES = {"limit": (1, MAX_PAGE_SIZE), "seconds": (1, 7 * 24 * 3600)}  # of numbers in the query

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ApiRequest:
    """A request as endpoints see it: path, query, settings and caller."""

    request: Request
    settings: Mapping[str, Any]
    token: TokenClaims

    def query(self, name: str) -> str:
        """Return a query parameter; empty if it is missing."""
        return self.request.query_params.get(name, "")

    def query_number(self, name: str, default: int = 0) -> int:
        """Return a query parameter that is a whole number."""
        least, most = _RANGES.get(name, (0, _MOST))
        value = filters.whole_number(self.query(name) or str(default))
        if value is not None and least <= value <= most:
            return value
        raise Refused("BadQuery", f"{name} must be a whole number from {least} to {most}")


@dataclass(frozen=True)
class ApiEndpoint:
    """An endpoint, and the method that handles its requests."""

    method: str
    path: str
    summary: str
    status: int
    response: type | None
    body: type[bodies.Body] | None
    query: Mapping[str, str]  # descriptions
    choices: Mapping[str, tuple[str, ...]]  # of path parameters
    parameters: Mapping[str, Parameter]  # of the method, without those of the path
    function: Callable[..., Any]

    @property
    def has_key(self) -> bool:
        """Whether a repeat with the same idempotency key has no effect."""
        return "key" in self.parameters

    async def handle(self, api: ApiSection, request: ApiRequest) -> object:
        """Call the method with what its parameters need of the request."""
        body = parse(self.body, request.settings) if self.body else None
        names = PATH_PARAMETER.findall(self.path)
        in_path = [str(request.request.path_params[name]) for name in names]
        rest = {
            name: body if name == "body" else _argument(parameter, api, request)
            for name, parameter in self.parameters.items()
        }
        result = self.function(api, *in_path, **rest)
        return await result if isawaitable(result) else result


def endpoint(
    method: str,
    path: str,
    *,
    status: int = 200,
    query: Mapping[str, str] | None = None,
    **choices: tuple[str, ...],
) -> Callable[[F], F]:
    """Declare the endpoint of a method; `choices` are the values of path parameters.

    The method has the parameters of the path first.
    """

    def declare(function: F) -> F:
        hints = get_type_hints(function)
        skipped = 1 + len(PATH_PARAMETER.findall(path))  # `self`, and the parameters of the path
        parameters = {
            parameter.name: parameter.replace(annotation=hints[parameter.name])
            for parameter in list(signature(function).parameters.values())[skipped:]
        }
        no_body = bodies.NoSettings if method in {"POST", "PATCH"} else None
        vars(function)[_ATTRIBUTE] = ApiEndpoint(
            method=method,
            path=path,
            summary=(getdoc(function) or "").partition("\n")[0],
            status=status,
            response=None if hints["return"] is type(None) else hints["return"],
            body=hints.get("body", no_body),
            query=query or {},
            choices=choices,
            parameters=parameters,
            function=function,
        )
        return function

    return declare


def endpoints_of(api: type[ApiSection]) -> Iterator[ApiEndpoint]:
    """Yield the endpoints that an API declares, section by section."""
    for section in api.__mro__:
        for attribute in vars(section).values():
            if isinstance(declared := getattr(attribute, _ATTRIBUTE, None), ApiEndpoint):
                yield declared


# --- Arguments ------------------------------------------------------------------------------------

_Reader = Callable[[ApiSection, ApiRequest], object]
_BY_NAME: Mapping[str, _Reader] = {
    "key": lambda _, request: request.request.headers.get("idempotency-key", ""),
    "actor": lambda _, request: request.token.principal.name,
    "caller": lambda _, request: request.token,
}
_BY_TYPE: Mapping[object, _Reader] = {
    MachineFilter: lambda _, request: filters.machine_filter(request.query),
    EventFilter: lambda api, request: filters.event_filter(request.query, api.fleet.clock.now()),
    JournalFilter: lambda _, request: filters.journal_filter(request.query),
}


def _argument(parameter: Parameter, api: ApiSection, request: ApiRequest) -> object:
    """Return the argument for a parameter that is not in the path or the body."""
    name, kind = parameter.name, parameter.annotation
    if reader := _BY_NAME.get(name) or _BY_TYPE.get(kind):
        return reader(api, request)
    if kind is bool:
        return request.query(name) == "true"
    if kind is int:
        return request.query_number(name, parameter.default)
    if kind == int | None:
        return request.query_number(name) or None
    if choices := [choice for choice in get_args(kind) if issubclass(choice, StrEnum)]:
        return filters.one_of(choices[0], request.query, name)
    return request.query(name)
