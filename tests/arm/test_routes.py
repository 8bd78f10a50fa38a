import pytest
from starlette.responses import Response

from fairwarning.arm.http.request import ArmRequest
from fairwarning.arm.http.routes import Route, RouteMatch, RouteTable
from fairwarning.arm.types.context import ArmContext
from tests.arm.bodies import VM, machine, refused
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness


async def unused_handler(context: ArmContext, request: ArmRequest) -> Response:
    """Fail if it is called."""
    raise NotImplementedError


def table(*lines: str) -> RouteTable:
    """Return a route table of `GET /path` lines."""
    return RouteTable(Route(method, path, unused_handler) for method, path in map(str.split, lines))


def match_route(table: RouteTable, method: str, path: str) -> tuple[str, dict[str, str]]:
    """Return the path of the matching route and its parameters."""
    match = table.find(method, path)
    assert isinstance(match, RouteMatch)
    return match.route.path, match.params


def test_literals_are_case_insensitive() -> None:
    """Parameters keep their case; a trailing slash is ignored."""
    routes = table("GET /subscriptions/{s}/resourceGroups/{g}")
    for path in (
        "/subscriptions/S/resourcegroups/MyGroup",
        "/SUBSCRIPTIONS/S/RESOURCEGROUPS/MyGroup",
        "/subscriptions/S/resourceGroups/MyGroup/",
    ):
        assert match_route(routes, "GET", path)[1] == {"s": "S", "g": "MyGroup"}


def test_a_literal_precedes_a_parameter() -> None:
    """The order of routes does not matter; an earlier literal wins."""
    lines = ["GET /a/{x}", "GET /a/b", "GET /{y}/b", "GET /{y}/{x}"]
    for order in (lines, lines[::-1]):
        routes = table(*order)
        assert match_route(routes, "GET", "/a/b")[0] == "/a/b"
        assert match_route(routes, "GET", "/a/c")[0] == "/a/{x}"
        assert match_route(routes, "GET", "/c/b")[0] == "/{y}/b"
        assert match_route(routes, "GET", "/c/d") == ("/{y}/{x}", {"y": "c", "x": "d"})


def test_the_most_specific_path_wins() -> None:
    """A method of a less specific path is not allowed on a more specific one."""
    routes = table("GET /a/b", "POST /a/b", "DELETE /a/{x}", "PUT /a/{x}")
    assert routes.find("DELETE", "/a/b") == {"GET", "POST"}
    assert routes.find("GET", "/a/c") == {"DELETE", "PUT"}
    assert routes.find("GET", "/a") == set()
    assert routes.find("GET", "/a/b/c") == set()


def test_a_parameter_is_not_empty() -> None:
    """`//` does not match a parameter."""
    routes = table("GET /a/{x}/c")
    assert routes.find("GET", "/a//c") == set()


def test_a_route_knows_whether_it_writes() -> None:
    """All methods but GET and HEAD write."""
    writes = {
        m
        for m in ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE")
        if Route(m, "/", unused_handler).writes
    }
    assert writes == {"PUT", "PATCH", "POST", "DELETE"}


# --- The routes of the service --------------------------------------------------------------------


def test_unknown_paths_and_methods() -> None:
    """404 names the path and 405 the allowed methods, only with a valid token."""
    with ArmHarness() as arm:
        none = arm.get("/sandcastles")
        assert refused(none) == (404, "InvalidResourceType")
        assert "sandcastles" in none.error_message
        not_allowed = arm.post(VM)
        assert refused(not_allowed) == (405, "MethodNotAllowed")
        assert "DELETE, GET, PATCH, PUT" in not_allowed.error_message
        assert arm.send("GET", "/nowhere", "", b"", {}).status == 401


@pytest.mark.spec("C1")
def test_head() -> None:
    """HEAD of a view has the headers of GET; it needs a token and an api-version, too."""
    with ArmHarness() as arm:
        machine(arm)
        head, get = arm.request("HEAD", f"{VM}/instanceView"), arm.get(f"{VM}/instanceView")
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == get.headers["content-length"]
        assert arm.request("HEAD", f"{VM}/restart").status == 405
        assert arm.request("HEAD", VM, version="").status == 400
        query = "api-version=2024-11-01"
        assert arm.send("HEAD", f"{SUBSCRIPTION}{VM}", query, b"", {}).status == 401
