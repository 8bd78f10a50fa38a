"""The table of routes. Azure's paths are compared without case, so this is our own table."""

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
    """A method and a path with {parameters}; `public` ones take no token and no api-version."""

    method: str
    path: str
    handler: Handler
    public: bool = False

    @property
    def action(self) -> str:
        """What Azure calls doing this: `Microsoft.Compute/virtualMachines/restart/action`."""
        _, _, named = self.path.rpartition("/providers/")
        words = [part for part in _segments(named) if not part.startswith("{")]
        verbs = {"GET": "read", "HEAD": "read", "DELETE": "delete", "POST": "action"}
        return "/".join([*words, verbs.get(self.method, "write")])

    @property
    def writes(self) -> bool:
        """Whether it may change something."""
        return self.method not in {"GET", "HEAD"}


@dataclass(frozen=True)
class RouteMatch:
    """A route and what stood in its path."""

    route: Route
    params: dict[str, str]


class RouteTable:
    """Routes by the number of segments of their paths: a handful each, so they are looked through.

    Among several that fit, the one that says more comes first: a word before a parameter.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._by_length: dict[int, list[tuple[tuple[str, ...], Route]]] = {}
        for route in self.routes:
            pattern = tuple(_word(part) for part in _segments(route.path))
            self._by_length.setdefault(len(pattern), []).append((pattern, route))
        for patterns in self._by_length.values():
            patterns.sort(key=lambda one: _open(one[0]))

    def find(self, method: str, path: str) -> RouteMatch | set[str]:
        """The route and its parameters; else the methods that there are for this path."""
        segments = _segments(path)
        lower = [part.lower() for part in segments]
        allowed: set[str] = set()
        best: list[bool] | None = None
        for pattern, route in self._by_length.get(len(segments), ()):
            if not _fits(pattern, lower) or best not in (None, _open(pattern)):
                continue
            best = _open(pattern)  # the best path there is decides, whatever its methods
            if route.method == method:
                named = zip(pattern, segments, strict=True)
                return RouteMatch(route, {p[1:-1]: part for p, part in named if p.startswith("{")})
            allowed.add(route.method)
        return allowed


def _segments(path: str) -> list[str]:
    return [part for part in path.split("/") if part]  # the Azure CLI doubles some slashes


def _word(part: str) -> str:
    return part if part.startswith("{") else part.lower()


def _open(pattern: tuple[str, ...]) -> list[bool]:
    return [part.startswith("{") for part in pattern]


def _fits(pattern: tuple[str, ...], segments: list[str]) -> bool:
    return all(p == s or (p[0] == "{" and s) for p, s in zip(pattern, segments, strict=True))
