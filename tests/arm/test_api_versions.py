import inspect
import re

import pytest
from azure.mgmt.compute.operations import _operations

from tests.arm.bodies import COMPUTE, VM, WEB, machine, refused
from tests.fixtures.arm import ArmHarness

pytestmark = pytest.mark.spec("C2")

NETWORKS = "/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks"
_DEFAULTS = re.compile(r'"api-version", "(20[0-9-]+(?:-preview)?)"')
_PATHS = re.compile(r'_url = "[^"]*/providers/Microsoft\.Compute/([A-Za-z]+)')
_SERVED = {"virtualMachines", "virtualMachineScaleSets", "availabilitySets", "disks", "images"}


def sdk_versions() -> set[str]:
    """Return the versions that the installed SDK sends for the types that are served here."""
    versions = set()
    for name, build in inspect.getmembers(_operations, inspect.isfunction):
        source = inspect.getsource(build) if name.startswith("build_") else ""
        kind, version = _PATHS.search(source), _DEFAULTS.search(source)
        if kind and version and kind[1] in _SERVED:
            versions.add(version[1])
    return versions


@pytest.mark.parametrize(
    ("path", "versions"),
    [
        # az 2.50 and 2.91, Ansible's collection, Libcloud, the Go and JavaScript SDKs
        (VM, "2026-04-01 2025-11-01 2024-11-01 2024-07-01 2022-11-01 2021-11-01 2015-06-15"),
        (WEB, "2026-04-01 2025-04-01 2023-09-01 2022-08-01 2019-03-01 2018-10-01 2017-03-30"),
        (f"{COMPUTE}/disks/d", "2025-01-02 2023-04-02 2023-01-02 2020-06-30 2016-04-30-preview"),
        ("/providers/Microsoft.Compute/skus", "2019-04-01 2021-07-01 2017-09-01"),
        (NETWORKS, "2026-03-01 2025-09-01 2024-05-01 2022-01-01 2020-11-01 2018-06-01 2015-06-15"),
        ("/resourceGroups/rg", "2025-04-01 2024-11-01 2022-09-01 2021-04-01 2016-09-01"),
        ("/locations", "2022-12-01 2019-11-01 2016-06-01 2015-01-01"),
        ("/resources", "2024-11-01 2021-04-01 2019-10-01 2016-09-01"),
    ],
)
def test_versions_of_public_clients(arm: ArmHarness, path: str, versions: str) -> None:
    """The versions that clients send by default are accepted."""
    machine(arm)
    for version in versions.split():
        assert arm.get(path, version=version).status in {200, 404}, version


def test_versions_of_the_installed_sdk(arm: ArmHarness) -> None:
    """Each version of the installed SDK is accepted for the types that are served."""
    versions = sdk_versions()
    assert "2026-04-01" in versions or len(versions) >= 2
    for version in versions:
        assert arm.get(f"{COMPUTE}/virtualMachines", version=version).status == 200, version


@pytest.mark.parametrize(
    "version", ["2024-11-02", "2031-01-01", "2014-01-01", "2024-11-01-preview"]
)
def test_a_version_that_never_existed(arm: ArmHarness, version: str) -> None:
    """It is refused in Azure's words, with the versions that exist, and nothing is changed."""
    for path, kind in ((VM, "virtualMachines"), (f"{NETWORKS}/net", "virtualNetworks")):
        for method in (arm.get, arm.delete):
            assert refused(method(path, version=version)) == (400, "NoRegisteredProviderFound")
        response = arm.put(path, {"location": "local"}, version=version)
        assert refused(response) == (400, "NoRegisteredProviderFound")
        assert response.error_message.startswith(
            "No registered resource provider found for location 'local' and API version "
            f"'{version}' for type '{kind}'. The supported api-versions are '2026-"
        )
        assert arm.get(path).status == 404
    for path in ("/resourceGroups/rg", "/resources", "/providers/Microsoft.Compute"):
        response = arm.get(path, version=version)
        assert refused(response) == (400, "InvalidApiVersionParameter")
        assert "The supported versions are '2026-" in response.error_message


def test_an_operation_is_polled_with_any_version(arm: ArmHarness) -> None:
    """The polling URL of a request to another provider has the version of that request."""
    arm.put(f"{NETWORKS}/net", {"location": "local"})
    accepted = arm.delete(f"{NETWORKS}/net", version="2015-05-01-preview")
    assert arm.ended(accepted)["status"] == "Succeeded"
