import pytest
from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.request import ArmRequest
from fairwarning.arm.http.routes import Route, RouteMatch, RouteTable
from tests.arm.bodies import COMPUTE, VM, WEB, machine, refused, scale_set
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness


async def nothing(plane: ArmContext, call: ArmRequest) -> Response:
    """A handler that nobody calls."""
    raise NotImplementedError


def table(*lines: str) -> RouteTable:
    """A table of `GET /path` lines."""
    return RouteTable(Route(method, path, nothing) for method, path in map(str.split, lines))


def found(table: RouteTable, method: str, path: str) -> tuple[str, dict[str, str]]:
    """The path of the route that matches, and what stood in it."""
    match = table.find(method, path)
    assert isinstance(match, RouteMatch)
    return match.route.path, match.params


def test_words_are_compared_without_case_and_values_kept() -> None:
    """As Azure's clients need it; a slash at the end does no harm."""
    routes = table("GET /subscriptions/{s}/resourceGroups/{g}")
    for path in (
        "/subscriptions/S/resourcegroups/MyGroup",
        "/SUBSCRIPTIONS/S/RESOURCEGROUPS/MyGroup",
        "/subscriptions/S/resourceGroups/MyGroup/",
    ):
        assert found(routes, "GET", path)[1] == {"s": "S", "g": "MyGroup"}


def test_a_word_comes_before_a_parameter() -> None:
    """In whatever order the routes were told, and the earlier word counts more."""
    lines = ["GET /a/{x}", "GET /a/b", "GET /{y}/b", "GET /{y}/{x}"]
    for order in (lines, lines[::-1]):
        routes = table(*order)
        assert found(routes, "GET", "/a/b")[0] == "/a/b"
        assert found(routes, "GET", "/a/c")[0] == "/a/{x}"
        assert found(routes, "GET", "/c/b")[0] == "/{y}/b"
        assert found(routes, "GET", "/c/d") == ("/{y}/{x}", {"y": "c", "x": "d"})


def test_the_best_path_decides_whatever_its_methods() -> None:
    """A method that only a looser path has is not allowed on the tighter one."""
    routes = table("GET /a/b", "POST /a/b", "DELETE /a/{x}", "PUT /a/{x}")
    assert routes.find("DELETE", "/a/b") == {"GET", "POST"}
    assert routes.find("GET", "/a/c") == {"DELETE", "PUT"}
    assert routes.find("GET", "/a") == set()
    assert routes.find("GET", "/a/b/c") == set()


def test_a_parameter_is_not_empty() -> None:
    """`//` names nothing."""
    routes = table("GET /a/{x}/c")
    assert routes.find("GET", "/a//c") == set()


def test_a_route_knows_whether_it_writes() -> None:
    """Readers may only read."""
    writes = {
        m
        for m in ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE")
        if Route(m, "/", nothing).writes
    }
    assert writes == {"PUT", "PATCH", "POST", "DELETE"}


# --- The real one ---------------------------------------------------------------------------------


def test_no_route_is_told_twice() -> None:
    """Each method of a path has one handler; parameters may have different names."""
    with ArmHarness() as arm:
        told = [
            (route.method, "/".join("{}" if p[:1] == "{" else p.lower() for p in parts))
            for route in arm.app.table.routes
            if (parts := route.path.split("/"))
        ]
    assert sorted(told) == sorted(set(told))


@pytest.mark.spec("C1")
def test_paths_are_compared_without_case() -> None:
    """The whole of it, actions too: one client alone sends it in several ways."""
    with ArmHarness() as arm:
        machine(arm)
        scale_set(arm)
        path = f"/{SUBSCRIPTION}{VM}"
        for spelt in (path.lower(), path.upper(), path.replace("Groups", "groups")):
            assert arm.get(spelt).json["name"] == "vm"
        for action in ("powerOff", "poweroff", "POWEROFF"):
            assert arm.post(f"{WEB}/virtualmachines/0/{action}").status in {202, 409}


def test_nothing_is_there() -> None:
    """404 with the path; 405 with what would be allowed. Both only for those who may ask."""
    with ArmHarness() as arm:
        none = arm.get(f"{COMPUTE}/sandcastles")
        assert refused(none) == (404, "InvalidResourceType")
        assert "sandcastles" in none.error_message
        wrong = arm.post(VM)
        assert refused(wrong) == (405, "MethodNotAllowed")
        assert "DELETE, GET, PATCH, PUT" in wrong.error_message
        assert arm.send("GET", "/nowhere", "", b"", {}).status == 401


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "MissingApiVersionParameter"),
        ("api-version=", "MissingApiVersionParameter"),
        ("api-version=latest", "InvalidApiVersionParameter"),
        ("api-version=2024-13-01", "InvalidApiVersionParameter"),
        ("api-version=2024-11-01&api-version=2024-11-01", "InvalidApiVersionParameter"),
    ],
)
def test_a_version_is_needed(query: str, code: str) -> None:
    """One, and one that is a date; the name of the parameter is compared without case."""
    with ArmHarness() as arm:
        arm.group()
        path = f"/resourceGroups/rg?{query}"
        assert refused(arm.get(path, version="")) == (400, code)
        right = arm.get("/resourceGroups/rg?API-Version=2024-11-01-preview", version="")
        assert right.status == 200
