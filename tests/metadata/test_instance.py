"""Instance metadata: fields by version, paths, formats and refusals (M19)."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.commands import CreateScope, CreateSet, JoinSet
from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import EvictionPolicy, Machine, Priority, ScaleSet, Scope, ScopeKind
from fairwarning.core.record import changed
from fairwarning.metadata.instance import VERSIONS, render
from fairwarning.metadata.interfaces import NetworkInterface
from fairwarning.service.config.settings import CloudSettings
from tests.fixtures.endpoint import EndpointHarness
from tests.fixtures.http import Response
from tests.metadata.conftest import METADATA

pytestmark = pytest.mark.spec("M19")

CLOUD = CloudSettings(subscription="sub", location="westeurope", group="rg", size="Standard_D2s_v5")
VM = Machine(
    name="vm",
    host_name="vm-host",
    update_domain=3,
    fault_domain=1,
    zone="2",
    tags={"team": "web", "cost": "low"},
    created_at=7.5,
)
INTERFACE = NetworkInterface("10.0.0.4", 24, "002248000001")
ALONE = Scope(id="vm", kind=ScopeKind.STANDALONE, machines={"vm": VM})


def render_text(
    *path: str,
    scope: Scope = ALONE,
    machine: Machine = VM,
    version: str = VERSIONS[-1],
    text: bool = False,
    scale_set: ScaleSet | None = None,
) -> tuple[str, str]:
    """Return the body as text, and the content type."""
    body, kind = render(
        CLOUD, scope, machine, version, path,
        text=text, scale_set=scale_set, interface=INTERFACE,
    )  # fmt: skip
    return body.decode(), kind


def compute(**more: Any) -> dict[str, Any]:  # noqa: ANN401  (as for `render_text`)
    """Return `compute` as a whole."""
    fields: dict[str, Any] = json.loads(render_text("compute", **more)[0])
    return fields


def refused(*path: str, text: bool = False) -> Refused:
    """Return the error of a refused path."""
    with pytest.raises(Refused) as caught:
        render_text(*path, text=text)
    return caught.value


def test_a_standalone_machine() -> None:
    """The newest version shows all fields, and every leaf is a string."""
    expected = json.loads(Path(__file__).with_name("compute.json").read_text("utf-8"))
    assert compute() == {**expected, "vmId": compute()["vmId"]}


def test_vm_id_of_a_recreated_machine() -> None:
    """`vmId` is stable for a machine and differs for a new machine of the same name."""
    assert compute()["vmId"] == compute(version="2017-04-02")["vmId"]
    assert compute()["vmId"] == compute()["vmId"].lower()
    assert compute()["vmId"] != compute(machine=changed(VM, created_at=8.0))["vmId"]


SINCE = {
    "2017-04-02": "name platformFaultDomain",
    "2017-08-01": "resourceGroupName subscriptionId placementGroupId tags",
    "2017-12-01": "vmScaleSetName zone",
    "2018-04-02": "plan publicKeys",
    "2018-10-01": "azEnvironment",
    "2019-03-11": "resourceId",
    "2019-06-04": "tagsList",
    "2020-07-15": "osProfile",
    "2020-12-01": "priority evictionPolicy",
    "2021-03-01": "virtualMachineScaleSet",
    "2023-11-15": "physicalZone",
}


@pytest.mark.parametrize("since", SINCE)
def test_a_field_appears_from_its_version_on(since: str) -> None:
    """Older versions do not show it; its own and all newer ones do."""
    for field in SINCE[since].split():
        showing = [version for version in VERSIONS if field in compute(version=version)]
        assert showing == [version for version in VERSIONS if version >= since]


def test_a_path_walks_objects_and_arrays() -> None:
    """Each segment is a name or an array index."""
    assert json.loads(render_text("network", "interface", "0", "ipv4", "ipAddress")[0]) == [
        {"privateIpAddress": "10.0.0.4", "publicIpAddress": ""}
    ]
    assert render_text("compute", "tagsList", "1", "value", text=True)[0] == "web"
    assert render_text("compute", "publicKeys") == ("[]", "application/json; charset=utf-8")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ([], "compute/\nnetwork/"),
        (["compute", "osProfile"], "adminUsername\ncomputerName\ndisablePasswordAuthentication"),
        (["compute", "tagsList"], "0/\n1/"),
        (["network", "interface", "0"], "ipv4/\nipv6/\nmacAddress"),
        (["compute", "publicKeys"], ""),
    ],
)
def test_text_of_a_node_lists_its_names(path: Sequence[str], names: str) -> None:
    """One name per line, with a slash after each name that has children."""
    assert render_text(*path, text=True) == (names, "text/plain; charset=utf-8")


@pytest.mark.parametrize(
    "path",
    [
        "nothing",
        "Compute",
        "compute/Name",
        "compute/name/further",
        "compute//name",
        "compute/tagsList/2",
        "compute/tagsList/-1",
        "compute/tagsList/00",
        "compute/tagsList/\N{SUPERSCRIPT ONE}",
        "compute/tagsList/" + "9" * 5000,
    ],
)
@pytest.mark.parametrize("text", [True, False])
def test_an_unknown_path(path: str, text: bool) -> None:
    """404 with the last existing parent; names are case-sensitive."""
    error = refused(*path.split("/"), text=text)
    assert isinstance(error, NotFound)
    assert "in instance" in error.message
    assert len(error.message) < 200


@given(path=st.lists(st.sampled_from(["compute", "tags", "0", "network"]) | st.text(), max_size=4))
def test_any_path_is_answered_or_refused(path: list[str]) -> None:
    """No path causes anything but our own errors."""
    for text in (True, False):
        try:
            render_text(*path, text=text)
        except Refused as error:
            error.message.encode()


# --- Over HTTP ---

HOME = "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Compute"
SPOT = changed(VM, address="10.1.2.3", priority=Priority.SPOT, eviction=EvictionPolicy.DELETE)


@pytest.fixture
def endpoint() -> Iterator[EndpointHarness]:
    """Yield an endpoint with the machine `vm`."""
    with EndpointHarness(cloud=CLOUD) as endpoint:
        endpoint.create(CreateScope(scope="vm", kind=ScopeKind.STANDALONE, machines=(SPOT,)))
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
        ("vmSize", "Standard_D2s_v5"),
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
    names, seen = {"web_1": 1, "web_2": 2}, []
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
        assert flexible or compute["osProfile"]["computerName"] == f"web00000{number}"
        seen.append(compute)
    assert len({compute["placementGroupId"] for compute in seen} - {""}) == 1
    assert len({compute["vmId"] for compute in seen}) == len(seen)
