"""The route table. It is our own because Azure's paths are case-insensitive."""

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from fairwarning.arm.http.request import json_response

Handler = Callable[[Any, Any], Awaitable[Response]]
"""Takes the `ArmContext` of the service and the `ArmRequest`."""


def fixed(read: Callable[[Any], object]) -> Handler:
    """Return a handler that answers with a document of the `ArmContext` alone."""

    async def answer(context: object, _request: object) -> Response:
        return json_response(read(context))

    return answer


SUBSCRIPTION = "/subscriptions/{subscription}"
GROUP = f"{SUBSCRIPTION}/resourceGroups/{{group}}"
COMPUTE = f"{GROUP}/providers/Microsoft.Compute"
ALL_COMPUTE = f"{SUBSCRIPTION}/providers/Microsoft.Compute"


@dataclass(frozen=True)
class Route:
    """A method and a path with {parameters}; `public` routes need no token and no api-version."""

    method: str
    path: str
    handler: Handler
    public: bool = False
    reads_only: bool = False  # a POST that changes nothing: a query
    has_parts: bool = False  # requests, each of which takes its own lane
    subscription_wide: bool = False  # not for a principal of a single group
    any_version: bool = False  # of a type that is only stored, or shared by all providers

    @property
    def action(self) -> str:
        """Azure's name for the action: `Microsoft.Compute/virtualMachines/restart/action`."""
        _, _, resource = self.path.rpartition("/providers/")
        words = [part for part in _segments(resource) if not part.startswith("{")]
        verbs = {"GET": "read", "HEAD": "read", "DELETE": "delete", "POST": "action"}
        return "/".join([*words, verbs.get(self.method, "write")])

    @property
    def kind(self) -> str:
        """The resource type that the path names, without what follows."""
        _, providers, resource = self.path.rpartition("/providers/")
        if not providers or resource.startswith("{"):  # groups, subscriptions, providers
            return "Microsoft.Resources"
        return resource.partition("/{")[0]

    @property
    def is_item(self) -> bool:
        """Whether the path names one resource, and not a list or an action."""
        return self.path.endswith("}")

    @property
    def writes(self) -> bool:
        return self.method not in {"GET", "HEAD"} and not self.reads_only


@dataclass(frozen=True)
class RouteMatch:
    """A route and the values of its path parameters."""

    route: Route
    params: dict[str, str]


class RouteTable:
    """All routes. If several match, the most specific wins: a literal comes before a parameter."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        patterns = ((_pattern(route.path), route) for route in self.routes)
        self._patterns = sorted(patterns, key=lambda pattern: _parameters(pattern[1].path))

    def find(self, method: str, path: str) -> RouteMatch | set[str]:
        """Return the route and its parameters, or else the methods that this path allows."""
        method = "GET" if method == "HEAD" else method
        text = "/".join(_segments(path))
        allowed: set[str] = set()
        best: list[bool] | None = None
        for pattern, route in self._patterns:
            match = pattern.fullmatch(text)
            if match is None or best not in (None, _parameters(route.path)):
                continue
            best = _parameters(route.path)  # the most specific path wins, whatever its methods
            if route.method == method:
                return RouteMatch(route, match.groupdict())
            allowed.add(route.method)
        return allowed


def _pattern(path: str) -> re.Pattern[str]:
    parts = (
        f"(?P<{part[1:-1]}>[^/]+)" if part.startswith("{") else re.escape(part)
        for part in _segments(path)
    )
    return re.compile("/".join(parts), re.IGNORECASE)


def _parameters(path: str) -> list[bool]:
    return [part.startswith("{") for part in _segments(path)]


def _segments(path: str) -> list[str]:
    return [part for part in path.split("/") if part]  # the Azure CLI doubles some slashes
