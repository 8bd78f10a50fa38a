import pytest

from tests.arm.bodies import VM, machine, refused
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

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
