"""Instance metadata over HTTP: paths, formats, versions and refusals (M19)."""

import pytest

from fairwarning.core.commands import CreateScope, CreateSet, Deallocate
from fairwarning.core.model import EvictionPolicy, Machine, Priority, ScopeKind
from fairwarning.metadata.instance import VERSIONS
from fairwarning.service.config.settings import CloudSettings
from tests.fixtures.endpoint import EndpointHarness
from tests.fixtures.http import Response, send

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


def _made() -> CreateScope:
    return CreateScope(scope="vm", kind=ScopeKind.STANDALONE, machines=(VM,))


def _ask(endpoint: EndpointHarness, path: str, query: str = "api-version=2025-04-07") -> Response:
    target = f"/metadata/{path}?{query}"
    return endpoint.send_from("vm", "GET", target, {"Metadata": "true"})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", "vm"),
        ("vmScaleSetName", ""),
        ("resourceId", f"{HOME}/virtualMachines/vm"),
        ("resourceGroupName", "rg"),
        ("subscriptionId", "sub"),
        ("location", "northeurope"),
        ("vmSize", "Standard_D4s_v5"),
        ("zone", "3"),
        ("placementGroupId", ""),
        ("platformFaultDomain", "2"),
        ("platformUpdateDomain", "4"),
        ("tags", "cost:low;team:web"),
        ("tagsList/1/name", "team"),
        ("priority", "Spot"),
        ("evictionPolicy", "Delete"),
        ("osProfile/computerName", "vm-host"),
    ],
)
def test_a_leaf_as_text(path: str, value: str) -> None:
    """With format=text it is the bare value, whatever the case of `text`; without it, 400."""
    with EndpointHarness(cloud=CLOUD) as endpoint:
        endpoint.create(_made())
        for form in ("text", "TEXT"):
            query = f"api-version=2025-04-07&format={form}"
            answer = _ask(endpoint, f"instance/compute/{path}", query)
            assert (answer.status, answer.body.decode()) == (200, value)
            assert answer.headers["content-length"] == str(len(value))
            if value:
                assert answer.headers["content-type"].startswith("text/plain")
        for more in ("", "&format=json", "&format="):
            answer = _ask(endpoint, f"instance/compute/{path}", f"api-version=2025-04-07{more}")
            assert answer.status == 400
            assert "format=text" in answer.error


def test_the_whole_and_its_parts() -> None:
    """The tree, a branch of it, a list in it: the same values, as JSON."""
    with EndpointHarness(cloud=CLOUD) as endpoint:
        endpoint.create(_made())
        whole = _ask(endpoint, "instance")
        assert whole.headers["content-type"].startswith("application/json")
        assert sorted(whole.json) == ["compute", "network"]
        compute = whole.json["compute"]
        assert _ask(endpoint, "instance/compute").json == compute
        assert _ask(endpoint, "instance/compute/tagsList").json == compute["tagsList"]
        assert _ask(endpoint, "instance/compute/tagsList/0").json == {
            "name": "cost",
            "value": "low",
        }
        interface = _ask(endpoint, "instance/network/interface/0/ipv4/ipAddress/0").json
        assert interface["privateIpAddress"] == "10.1.2.3"
        assert len(compute["vmId"]) == 36


@pytest.mark.parametrize("path", ["instance/", "Instance", "INSTANCE/", "instance/compute/"])
def test_the_path_forgives(path: str) -> None:
    """A trailing slash, and capital letters in what is not a field."""
    with EndpointHarness(cloud=CLOUD) as endpoint:
        endpoint.create(_made())
        answer = _ask(endpoint, path)
        assert answer.status == 200
        assert "vmId" in answer.json.get("compute", answer.json)


def test_unknown_parameters_are_ignored() -> None:
    """As `extended=true`, which cloud-init sends."""
    with EndpointHarness(cloud=CLOUD) as endpoint:
        endpoint.create(_made())
        answer = _ask(endpoint, "instance", "api-version=2021-08-01&extended=true")
        assert answer.json == _ask(endpoint, "instance", "api-version=2021-08-01").json


@pytest.mark.parametrize(
    "path", ["compute/nothing", "Compute", "compute/Name", "compute/name/x", "compute//name"]
)
@pytest.mark.parametrize("more", ["", "&format=text"])
def test_a_path_that_leads_nowhere(path: str, more: str) -> None:
    """404 with a text; fields are case-sensitive."""
    with EndpointHarness(cloud=CLOUD) as endpoint:
        endpoint.create(_made())
        answer = _ask(endpoint, f"instance/{path}", f"api-version=2025-04-07{more}")
        assert answer.status == 404
        assert answer.error


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_served(version: str) -> None:
    """Each shows the fields that it and those before it brought, and no later ones."""
    since = {
        "name": "2017-04-02",
        "resourceGroupName": "2017-08-01",
        "vmScaleSetName": "2017-12-01",
        "resourceId": "2019-03-11",
        "tagsList": "2019-06-04",
        "osProfile": "2020-07-15",
        "priority": "2020-12-01",
    }
    with EndpointHarness(cloud=CLOUD) as endpoint:
        endpoint.create(_made())
        compute = _ask(endpoint, "instance", f"api-version={version}").json["compute"]
        shown = {name for name in since if name in compute}
        assert shown == {name for name, first in since.items() if first <= version}


def test_versions() -> None:
    """GET /metadata/versions needs no api-version, and lists those of instance, oldest first."""
    with EndpointHarness() as endpoint:
        endpoint.create(_made())
        for target in ("/metadata/versions", "/metadata/Versions/", "/metadata/versions?x=1"):
            answer = endpoint.send_from("vm", "GET", target, {"Metadata": "true"})
            assert answer.json == {"apiVersions": list(VERSIONS)}
        assert answer.json["apiVersions"] == sorted(answer.json["apiVersions"])
        for version in answer.json["apiVersions"]:
            assert _ask(endpoint, "instance", f"api-version={version}").status == 200


def test_a_version_that_cloud_init_tries_first() -> None:
    """400 with the newest versions, on the same connection that then asks for an older one."""
    with EndpointHarness() as endpoint:
        endpoint.create(_made())
        connection = endpoint.client("vm")
        headers = {"Metadata": "true"}
        answer = send(connection, "GET", "/metadata/instance?api-version=2031-01-01", headers)
        assert (answer.status, answer.json["newest-versions"][0]) == (400, "2025-04-07")
        newest = answer.json["newest-versions"][0]
        answer = send(connection, "GET", f"/metadata/instance?api-version={newest}", headers)
        assert answer.status == 200


def test_each_machine_is_told_about_itself() -> None:
    """Machines of one set, by the same bytes: each gets its own name and computer name."""
    with EndpointHarness(cloud=CLOUD) as endpoint:
        endpoint.create(CreateSet(set="web", capacity=3))
        told = {}
        for n in range(3):
            target = "/metadata/instance/compute?api-version=2021-02-01"
            compute = endpoint.send_from(f"web_{n}", "GET", target, {"Metadata": "true"}).json
            assert (compute["name"], compute["vmScaleSetName"]) == (f"web_{n}", "web")
            assert compute["osProfile"]["computerName"] == f"web00000{n}"
            told[compute["vmId"]] = compute["placementGroupId"]
        assert len(told) == 3
        assert len(set(told.values())) == 1


def test_it_follows_the_machine() -> None:
    """A machine that is switched off is told nothing; versions are no secret of it."""
    with EndpointHarness() as endpoint:
        endpoint.create(_made())
        assert _ask(endpoint, "instance").status == 200
        endpoint.do(Deallocate(scope="vm", operation="off", machines=("vm",)))
        endpoint.advance(60)
        answer = _ask(endpoint, "instance")
        assert answer.status == 404
        assert answer.error
