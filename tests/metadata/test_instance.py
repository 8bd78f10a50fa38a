import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import Machine, ScaleSet, Scope, ScopeKind
from fairwarning.core.record import changed
from fairwarning.metadata.instance import VERSIONS, render
from fairwarning.metadata.interfaces import NetworkInterface
from fairwarning.service.config.settings import CloudSettings
from tests.fixtures.fleet import FleetHarness

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


def test_an_instance_of_a_scale_set() -> None:
    """It shows the scale set, the instance id, and the placement group that instances share."""
    with FleetHarness() as harness:
        harness.make_scale_set(2, name="web_tier", group="shop")
        scope = harness.scope("web_tier/0")
        first, second = (
            compute(scope=scope, machine=machine, scale_set=harness.scale_set("web_tier"))
            for machine in harness.machines("web_tier/0").values()
        )
    assert (second["name"], second["vmScaleSetName"]) == ("web_tier_1", "web_tier")
    assert second["osProfile"]["computerName"] == "web_tier000001"
    assert second["resourceId"] == (
        "/subscriptions/sub/resourceGroups/shop/providers/Microsoft.Compute"
        "/virtualMachineScaleSets/web_tier/virtualMachines/1"
    )
    assert first["placementGroupId"] == second["placementGroupId"] != ""
    assert first["vmId"] != second["vmId"]


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
