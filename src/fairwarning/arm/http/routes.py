"""The route table. It is our own because Azure's paths are case-insensitive."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from fairwarning.arm.http.context import ArmContext
    from fairwarning.arm.http.request import ArmRequest

Handler = Callable[["ArmContext", "ArmRequest"], Awaitable[Response]]

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

    @property
    def action(self) -> str:
        """Azure's name for the action: `Microsoft.Compute/virtualMachines/restart/action`."""
        _, _, resource = self.path.rpartition("/providers/")
        words = [part for part in _segments(resource) if not part.startswith("{")]
        verbs = {"GET": "read", "HEAD": "read", "DELETE": "delete", "POST": "action"}
        return "/".join([*words, verbs.get(self.method, "write")])

    @property
    def writes(self) -> bool:
        """Whether the route may change something."""
        return self.method not in {"GET", "HEAD"} and not self.reads_only

    @property
    def is_item(self) -> bool:
        """Whether the path names one resource, and not a list or an action."""
        return self.path.endswith("}")


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
        self._by_length: dict[int, list[tuple[tuple[str, ...], Route]]] = {}
        for route in self.routes:
            pattern = tuple(_lower_literal(part) for part in _segments(route.path))
            self._by_length.setdefault(len(pattern), []).append((pattern, route))
        for patterns in self._by_length.values():
            patterns.sort(key=lambda entry: _parameters(entry[0]))

    def find(self, method: str, path: str) -> RouteMatch | set[str]:
        """Return the route and its parameters, or else the methods that this path allows.

        The route of a HEAD request is that of GET.
        """
        method = "GET" if method == "HEAD" else method
        segments = _segments(path)
        lower = [part.lower() for part in segments]
        allowed: set[str] = set()
        best: list[bool] | None = None
        for pattern, route in self._by_length.get(len(segments), ()):
            if not _matches(pattern, lower) or best not in (None, _parameters(pattern)):
                continue
            best = _parameters(pattern)  # the most specific path wins, whatever its methods
            if route.method == method:
                pairs = zip(pattern, segments, strict=True)
                return RouteMatch(route, {p[1:-1]: part for p, part in pairs if p.startswith("{")})
            allowed.add(route.method)
        return allowed


def _segments(path: str) -> list[str]:
    return [part for part in path.split("/") if part]  # the Azure CLI doubles some slashes


def _lower_literal(part: str) -> str:
    return part if part.startswith("{") else part.lower()


def _parameters(pattern: tuple[str, ...]) -> list[bool]:
    return [part.startswith("{") for part in pattern]


def _matches(pattern: tuple[str, ...], segments: list[str]) -> bool:
    return all(p == s or (p[0] == "{" and s) for p, s in zip(pattern, segments, strict=True))
