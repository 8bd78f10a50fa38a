"""Instance metadata over HTTP: paths, formats, versions and refusals (M19)."""

from collections.abc import Iterator

import pytest

from fairwarning.core.commands import CreateScope, CreateSet, JoinSet
from fairwarning.core.model import EvictionPolicy, Machine, Priority, ScopeKind
from fairwarning.metadata.instance import VERSIONS
from fairwarning.service.config.settings import CloudSettings
from tests.fixtures.endpoint import EndpointHarness
from tests.fixtures.http import Response
from tests.metadata.conftest import METADATA

pytestmark = pytest.mark.spec("M19")

CLOUD = CloudSettings(
    subscription="sub", location="northeurope", group="rg", size="Standard_D4s_v5"
)
HOME = "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Compute"
VM = Machine(
    name="vm",
    host_name="vm-host",
    address="10.1.2.3",
    update_domain=4,
    fault_domain=2,
    priority=Priority.SPOT,
    eviction=EvictionPolicy.DELETE,
    zone="3",
    tags={"team": "web", "cost": "low"},
)


@pytest.fixture
def endpoint() -> Iterator[EndpointHarness]:
    """Yield an endpoint with the machine `vm`."""
    with EndpointHarness(cloud=CLOUD) as endpoint:
        endpoint.create(CreateScope(scope="vm", kind=ScopeKind.STANDALONE, machines=(VM,)))
        yield endpoint


def _get(endpoint: EndpointHarness, path: str, query: str = "api-version=2025-04-07") -> Response:
    target = f"/metadata/{path}?{query}"
    return endpoint.send_from("vm", "GET", target, METADATA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", "vm"),
        ("vmScaleSetName", ""),
        ("resourceId", f"{HOME}/virtualMachines/vm"),
        ("vmSize", "Standard_D4s_v5"),
        ("tagsList/1/name", "team"),
        ("evictionPolicy", "Delete"),
    ],
)
def test_a_leaf_as_text(endpoint: EndpointHarness, path: str, value: str) -> None:
    """`format=text`, in any case, returns the bare value; without it, 400."""
    for form in ("text", "TEXT"):
        query = f"api-version=2025-04-07&format={form}"
        response = _get(endpoint, f"instance/compute/{path}", query)
        assert (response.status, response.text) == (200, value)
        assert response.headers["content-length"] == str(len(value))
        assert response.headers.get("content-type", "").startswith("text/plain" if value else "")
    for more in ("", "&format=json", "&format="):
        response = _get(endpoint, f"instance/compute/{path}", f"api-version=2025-04-07{more}")
        assert response.status == 400
        assert "format=text" in response.error


def test_the_tree_and_its_subtrees(endpoint: EndpointHarness) -> None:
    """The tree, a subtree and a list in it show the same values, as JSON."""
    whole = _get(endpoint, "instance")
    assert whole.headers["content-type"].startswith("application/json")
    assert sorted(whole.json) == ["compute", "network"]
    compute = whole.json["compute"]
    assert _get(endpoint, "instance/compute").json == compute
    assert _get(endpoint, "instance/compute/tagsList").json == compute["tagsList"]
    assert _get(endpoint, "instance/compute/tagsList/0").json == compute["tagsList"][0]
    interface = _get(endpoint, "instance/network/interface/0/ipv4/ipAddress/0").json
    assert interface["privateIpAddress"] == "10.1.2.3"
    assert len(compute["vmId"]) == 36


def test_versions(endpoint: EndpointHarness) -> None:
    """GET /metadata/versions needs no api-version, and lists those of instance, oldest first."""
    for target in ("/metadata/versions", "/metadata/Versions/", "/metadata/versions?x=1"):
        response = endpoint.send_from("vm", "GET", target, METADATA)
        assert response.json == {"apiVersions": list(VERSIONS)}
    assert response.json["apiVersions"] == sorted(response.json["apiVersions"])
    for version in response.json["apiVersions"]:
        assert _get(endpoint, "instance", f"api-version={version}").status == 200


@pytest.mark.parametrize("flexible", [True, False])
def test_the_identity_of_an_instance_is_stored(
    endpoint: EndpointHarness, *, flexible: bool
) -> None:
    """A name that looks like that of another set's instance says nothing about the machine."""
    endpoint.create(CreateSet(set="web", capacity=3, flexible=flexible))
    names = {"web_2": 2}
    if flexible:
        joining = Machine(name="db_3")
        endpoint.create(JoinSet(set="web", machine=joining, scope="web/0", resource="r"))
        names["db_3"] = 3
    owner = f"{HOME}/virtualMachineScaleSets/web"
    for name, number in names.items():
        target = "/metadata/instance/compute?api-version=2021-03-01"
        compute = endpoint.send_from(name, "GET", target, METADATA).json
        own = f"{HOME}/virtualMachines/{name}" if flexible else f"{owner}/virtualMachines/{number}"
        assert (compute["name"], compute["resourceId"]) == (name, own)
        assert compute["vmScaleSetName"] == "web"
        assert compute["virtualMachineScaleSet"] == {"id": owner if flexible else ""}
