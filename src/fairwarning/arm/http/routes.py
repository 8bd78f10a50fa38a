"""The route table. It is our own because Azure's paths are case-insensitive."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

Handler = Callable[[Any, Any], Awaitable[Response]]
"""Takes the `ArmContext` of the service and the `ArmRequest`."""

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
        """Whether the route may change something."""
        return self.method not in {"GET", "HEAD"} and not self.reads_only


@dataclass(frozen=True)
class RouteMatch:
    """A route and the values of its path parameters."""

    route: Route
    params: dict[str, str]


class RouteTable:
    """Routes by number of path segments; each number has few routes, so `find` scans them.

    If several routes match, the most specific wins: a literal segment comes before a parameter.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._by_length: dict[int, list[_Pattern]] = {}
        for route in self.routes:
            pattern = _Pattern.of(route)
            self._by_length.setdefault(pattern.length, []).append(pattern)
        for patterns in self._by_length.values():
            patterns.sort(key=lambda pattern: pattern.is_parameter)

    def find(self, method: str, path: str) -> RouteMatch | set[str]:
        """Return the route and its parameters, or else the methods that this path allows.

        The route of a HEAD request is that of GET.
        """
        method = "GET" if method == "HEAD" else method
        segments = _segments(path)
        lower = [part.lower() for part in segments]
        allowed: set[str] = set()
        best: tuple[bool, ...] | None = None
        for pattern in self._by_length.get(len(segments), ()):
            if not pattern.matches(lower) or best not in (None, pattern.is_parameter):
                continue
            best = pattern.is_parameter  # the most specific path wins, whatever its methods
            if pattern.route.method == method:
                params = {name: segments[place] for place, name in pattern.parameters}
                return RouteMatch(pattern.route, params)
            allowed.add(pattern.route.method)
        return allowed


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The path of a route, prepared for comparing: the last literals differ most often."""

    route: Route
    length: int
    is_parameter: tuple[bool, ...]
    literals: tuple[tuple[int, str], ...]
    parameters: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, route: Route) -> "_Pattern":
        """Return the pattern of a route."""
        parts = list(enumerate(_segments(route.path)))
        return cls(
            route,
            len(parts),
            tuple(part.startswith("{") for _, part in parts),
            tuple((n, part.lower()) for n, part in reversed(parts) if not part.startswith("{")),
            tuple((n, part[1:-1]) for n, part in parts if part.startswith("{")),
        )

    def matches(self, segments: list[str]) -> bool:
        """Whether a path, in lower case, has the literals of this pattern."""
        for place, literal in self.literals:  # noqa: SIM110  (twice as fast as a generator)
            if segments[place] != literal:
                return False
        return True


def _segments(path: str) -> list[str]:
    return [part for part in path.split("/") if part]  # the Azure CLI doubles some slashes
