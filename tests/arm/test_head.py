"""HEAD: the response to GET without its body (C1)."""

import pytest

from tests.arm.bodies import COMPUTE, VM, machine, scale_set
from tests.fixtures.arm import ArmHarness

pytestmark = pytest.mark.spec("C1")


def test_a_resource_exists() -> None:
    """HEAD of a resource gets 204, and 404 without a body if there is none (`az group exists`)."""
    with ArmHarness() as arm:
        machine(arm)
        scale_set(arm)
        arm.put(f"{COMPUTE}/disks/disk", {"location": "local"})
        for path in ("", VM, f"{COMPUTE}/virtualMachineScaleSets/web", f"{COMPUTE}/disks/disk"):
            response = arm.request("HEAD", path or "/resourceGroups/rg")
            assert (response.status, response.body) == (204, b""), path
            assert "content-length" not in response.headers
        for path in ("/resourceGroups/none", f"{VM}x", f"{COMPUTE}/disks/none", "/nowhere"):
            response = arm.request("HEAD", path)
            assert (response.status, response.body) == (404, b""), path


def test_other_paths() -> None:
    """HEAD of a list or a view gets the headers of GET."""
    with ArmHarness() as arm:
        machine(arm)
        for path in (f"{COMPUTE}/virtualMachines", f"{VM}/instanceView", "/resources"):
            head, get = arm.request("HEAD", path), arm.get(path)
            assert (head.status, head.body) == (200, b""), path
            for name in ("content-type", "content-length"):
                assert head.headers[name] == get.headers[name], path
        assert arm.request("HEAD", f"{VM}/restart").status == 405


def test_a_head_request_is_authorized() -> None:
    """HEAD needs a token and an api-version, as GET does."""
    with ArmHarness() as arm:
        machine(arm)
        assert arm.request("HEAD", VM, version="").status == 400
        path = f"/subscriptions/{arm.app.context.cloud.subscription}{VM}"
        assert arm.send("HEAD", path, "api-version=2024-11-01", b"", {}).status == 401
