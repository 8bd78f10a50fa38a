"""Types that are only stored: any document of any type, within limits (C8)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairwarning.arm.http.request import BODY_VALUES
from fairwarning.arm.types import stored
from tests.arm.bodies import COMPUTE, VM, WEB, Json, machine, names, refused, scale_set
from tests.arm.everything import state
from tests.arm.stored_documents import RG, StoredResource, stored_resources
from tests.arm.templates import deployment, resource
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C8")

ACCOUNTS = f"{RG}/providers/Microsoft.Storage/storageAccounts"
ACCOUNT = f"{ACCOUNTS}/acme"
PLACE: Json = {"location": "local"}


def written(arm: ArmHarness, drawn: list[StoredResource]) -> dict[str, Json]:
    """Write resources and their parents; return the documents by path in lower case."""
    found: dict[str, Json] = {}
    for item in [each for own in drawn for each in (own.parent, own) if each]:
        response = arm.put(item.path, item.body)
        expected = 200 if item.path.lower() in found else 201
        assert response.status == expected, (item, response.body)
        document = arm.get(item.path).json
        known = found.get(item.path.lower(), document)
        same = {name: known[name] for name in ("id", "name", "type")}  # as first written
        assert document == {**item.document(response.headers["etag"]), **same}
        found[item.path.lower()] = document
    return found


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(drawn=st.lists(stored_resources(), min_size=1, max_size=6))
def test_documents_read_back_as_written(drawn: list[StoredResource]) -> None:
    """Also after a restart; and they are gone with their parent, their machine and their group."""
    with ArmHarness() as arm:
        machine(arm)
        found = written(arm, drawn)
        arm.restart()
        for path, document in found.items():
            assert arm.get(path).json == document
        outermost = (drawn[0].parent or drawn[0]).path.lower()
        assert arm.delete(outermost).status == 200
        for path in list(found):
            if f"{path}/".startswith(f"{outermost}/"):
                assert arm.get(path).status == 404
                del found[path]
        arm.delete(VM)
        arm.advance(60)
        assert not any(arm.get(path).status == 200 for path in found if VM.lower() in path)
        arm.delete(RG)
        assert arm.get(RG).status == 404
        left = {path for path in found if arm.get(path).status == 200}
        assert left == {path for path in found if not path.startswith("/resourcegroups")}


@pytest.mark.parametrize("path", ["extensions/x", "providers/Microsoft.Insights/settings/x"])
def test_what_belonged_to_an_evicted_machine(arm: ArmHarness, path: str) -> None:
    """It is gone, although no client deleted it, and a new machine of the name has none."""
    machine(arm, priority="Spot", evictionPolicy="Delete")
    assert arm.put(f"{VM}/{path}", PLACE).status == 201
    arm.post(f"{VM}/simulateEviction")
    arm.advance(60)
    assert refused(arm.get(f"{VM}/{path}")) == (404, "ResourceNotFound")
    machine(arm)
    assert refused(arm.get(f"{VM}/{path}")) == (404, "ResourceNotFound")
    assert names(arm, f"{VM}/{path}".rpartition("/")[0]) == []


@pytest.mark.parametrize(
    ("mode", "end"),
    [
        ("Uniform", "extensions/x"),
        ("Uniform", "providers/Microsoft.Insights/settings/x"),
        ("Flexible", "providers/Microsoft.Insights/settings/x"),
    ],
)
def test_what_belongs_to_an_instance(arm: ArmHarness, mode: str, end: str) -> None:
    """It is the same under each name of the instance, and goes with it."""
    scale_set(arm, orchestrationMode=mode)
    paths = [f"{WEB}/virtualMachines/{name}/{end}" for name in ("web_1", "1")]
    if mode == "Flexible":
        paths.append(f"{COMPUTE}/virtualMachines/web_1/{end}")
    document = arm.put(paths[0], PLACE).json
    assert document["id"] == f"{SUBSCRIPTION}{paths[-1]}"
    for path in paths:
        assert arm.get(path).json == document
        assert arm.get(path.rpartition("/")[0]).json["value"] == [document]
    assert arm.delete(f"{WEB}/virtualMachines/web_1").status == 202
    arm.advance(60)
    assert {arm.get(path).status for path in paths} == {404}


def test_computed_members(arm: ArmHarness) -> None:
    """What templates refer to is made up; a client's own value wins."""
    path = f"{ACCOUNTS}/a'\"b"
    arm.put(path, PLACE)
    endpoints = arm.get(path).json["properties"]["primaryEndpoints"]
    assert endpoints["blob"] == "https://a'\"b.blob.fairwarning.invalid/"
    arm.put(path, {"properties": {"primaryEndpoints": {"blob": "own"}}})
    assert arm.get(path).json["properties"]["primaryEndpoints"] == {"blob": "own"}


def deep(levels: int) -> Json:
    """Return an object with this many levels."""
    value: Json = {}
    for _ in range(levels):
        value = {"x": value}
    return value


TOO_MANY_LEVELS = "/".join("a/b" for _ in range(9))


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (ACCOUNT, deep(70), 400, "InvalidRequestContent"),
        (ACCOUNT, deep(400), 400, "InvalidRequestContent"),
        (ACCOUNT, {"properties": {"a": "x" * 600_000}}, 413, "RequestContentTooLarge"),
        (ACCOUNT, {"properties": {"a": "x" * 5_000_000}}, 413, "RequestContentTooLarge"),
        (ACCOUNT, {"properties": {"a": [0] * (BODY_VALUES + 1)}}, 413, "RequestContentTooLarge"),
        (ACCOUNT, {"properties": "text"}, 400, "InvalidParameter"),
        (ACCOUNT, {"tags": {"a": None}}, 400, "InvalidParameter"),
        (f"{ACCOUNTS}/a\x01b", {}, 400, "InvalidParameter"),
        (f"{ACCOUNTS}/a ", {}, 400, "InvalidParameter"),
        (f"{ACCOUNTS}/a\ud7a4", {}, 400, "InvalidParameter"),  # not a character (yet)
        (
            f"{RG}/providers/Microsoft.X/a/b/c/{'x' * 250}/d/{'x' * 250}/e/f",
            {},
            400,
            "InvalidParameter",
        ),
        (f"{ACCOUNTS}/{'x' * 5000}", {}, 400, "InvalidParameter"),
        (f"{RG}/providers/Microsoft.X/{TOO_MANY_LEVELS}", {}, 400, "InvalidParameter"),
        (f"{RG}/providers/Microsoft.X/a b/c", {}, 404, "InvalidResourceType"),
        (f"{RG}/providers/Micro soft.X/a/c", {}, 404, "InvalidResourceType"),
        (f"{RG}/providers/Microsoft/a/c", {}, 404, "InvalidResourceType"),
        (f"{RG}/providers/Microsoft.{'x' * 200}/a/c", {}, 404, "InvalidResourceType"),
    ],
    ids=lambda value: value[-40:] if isinstance(value, str) else "",
)
def test_hostile_documents(arm: ArmHarness, path: str, body: Json, status: int, code: str) -> None:
    """They get a clear error, and change nothing."""
    arm.put(f"{RG}/providers/Microsoft.X/a/b", {})
    before = state(arm)
    response = arm.put(path, body)
    assert refused(response) == (status, code)
    assert len(response.error_message) < 1000
    assert state(arm) == before


def test_the_depth_that_is_kept(arm: ArmHarness) -> None:
    """A document of sixty levels reads back."""
    path = f"{RG}/providers/Microsoft.X/y/z"
    assert arm.put(path, {"properties": deep(58)}).status == 201
    properties = arm.get(path).json["properties"]
    properties.pop("provisioningState")
    assert properties == deep(58)


def test_the_number_of_resources_in_a_group(
    arm: ArmHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is limited, for each group and for the subscription; existing ones can be written."""
    monkeypatch.setattr(stored, "IN_GROUP_MAX", 3)
    full = (409, "ResourceGroupQuotaExceeded")
    arm.group("other")
    for number in range(3):
        assert arm.put(f"{ACCOUNTS}/a{number}", PLACE).status == 201
        assert arm.put(f"/providers/Microsoft.X/y/a{number}", PLACE).status == 201
    assert refused(arm.put(f"{ACCOUNTS}/a3", PLACE)) == full
    assert refused(arm.put("/providers/Microsoft.X/y/a3", PLACE)) == full
    assert arm.put(f"{ACCOUNTS}/a2", PLACE).status == 200
    assert arm.put(f"{ACCOUNTS}/a3".replace("/rg/", "/other/"), PLACE).status == 201
    arm.delete(f"{ACCOUNTS}/a0")
    assert arm.put(f"{ACCOUNTS}/a3", PLACE).status == 201
    assert names(arm, ACCOUNTS) == ["a1", "a2", "a3"]


def test_secrets_are_not_stored(arm: ArmHarness) -> None:
    """Neither are those of extensions, whatever their case; the rest is kept."""
    settings = {"protectedSettings": {"k": "s3cret"}, "settings": {"a": None}}
    machine(arm)
    response = arm.put(f"{VM}/extensions/script", {**PLACE, "properties": settings})
    assert response.json["properties"]["settings"] == {"a": None}
    arm.put(ACCOUNT, {"properties": {"x": [{"AdministratorLoginPassword": "s3cret"}]}})
    assert "s3cret" not in repr(vars(arm.store))


def reference(path: str) -> Json:
    """Return a body with the id of a resource somewhere inside."""
    return {"properties": {"rules": [{"target": f"{SUBSCRIPTION}{path}"}]}}


def test_references_to_itself_and_in_a_circle(arm: ArmHarness) -> None:
    """What exists can be named, also by itself; the group is deleted with the circle."""
    other = f"{ACCOUNTS}/other"
    assert arm.put(ACCOUNT, reference(f"{ACCOUNT}/blobServices/default")).status == 201
    assert refused(arm.put(ACCOUNT, reference(other))) == (400, "InvalidResourceReference")
    assert arm.put(other, reference(ACCOUNT)).status == 201
    assert arm.put(ACCOUNT, reference(other)).status == 200
    assert arm.delete(other).status == 200  # nothing protects a resource that a stored one names
    arm.put(other, reference(ACCOUNT))
    arm.delete(RG)
    assert arm.get(RG).status == 404


@pytest.mark.parametrize("action", ["listKeys", "listkeys", "listAccountSas", "listSecrets"])
def test_list_actions(arm: ArmHarness, action: str) -> None:
    """They return keys of a fixed form, the same each time, and say that these are made up."""
    arm.put(ACCOUNT, PLACE)
    arm.put(f"{ACCOUNTS}/other", PLACE)
    before = state(arm)
    response = arm.post(f"{ACCOUNT}/{action}")
    assert response.status == 200
    body = response.json
    first, second = body["keys"]
    assert (first["keyName"], first["value"]) == ("key1", body["primaryKey"])
    assert (second["keyName"], second["value"]) == ("key2", body["secondaryKey"])
    assert "does not act" in response.headers[stored.HEADER]
    assert arm.post(f"{ACCOUNT}/{action}").json == body
    assert arm.post(f"{ACCOUNTS}/other/{action}").json["primaryKey"] != body["primaryKey"]
    assert state(arm) == before
    assert refused(arm.post(f"{ACCOUNT}2/{action}")) == (404, "ResourceNotFound")


def test_other_actions(arm: ArmHarness) -> None:
    """They are refused by name, and change nothing."""
    machine(arm)
    arm.put(ACCOUNT, PLACE)
    before = state(arm)
    response = arm.post(f"{ACCOUNT}/regenerateKey", {"keyName": "key1"})
    assert refused(response) == (409, "OperationNotAllowed")
    assert "'regenerateKey' is not supported" in response.error_message
    assert "Microsoft.Storage/storageAccounts" in response.error_message
    assert refused(arm.post(ACCOUNTS)) == (404, "InvalidResourceType")
    assert refused(arm.post(f"{ACCOUNT}/tables/x")) == (405, "MethodNotAllowed")
    assert refused(arm.post(f"{VM}/listKeys")) == (404, "InvalidResourceType")
    assert arm.get(f"{VM}/providers/Microsoft.Insights/metrics").json == {"value": []}
    assert state(arm) == before


def test_a_deployment_says_what_is_only_stored(arm: ArmHarness) -> None:
    """Its diagnostics have a warning for each type, once; without such types there are none."""
    path = f"{RG}/providers/Microsoft.Resources/deployments/main"
    accounts = [resource("Microsoft.Storage/storageAccounts", name) for name in ("a", "b")]
    extension = resource("Microsoft.Compute/virtualMachines/extensions", "vm/x", "vm")
    acting = resource("Microsoft.Compute/virtualMachines", "vm")
    for resources, expected in (
        ([acting], []),
        (
            [*accounts, acting, extension],
            [
                "Microsoft.Storage/storageAccounts",
                "Microsoft.Compute/virtualMachines/extensions",
            ],
        ),
    ):
        arm.put(path, deployment(*resources))
        properties = arm.get(path).json["properties"]
        assert properties["provisioningState"] == "Succeeded", properties
        warnings = properties.get("diagnostics", [])
        assert {(entry["level"], entry["code"]) for entry in warnings} <= {
            ("Warning", "StoredOnly")
        }
        texts = sorted(entry["message"] for entry in warnings)
        assert texts == sorted(map(stored.note, expected))
    assert names(arm, ACCOUNTS) == ["a", "b"]
    assert names(arm, f"{VM}/extensions") == ["x"]
    assert names(arm, f"{COMPUTE}/virtualMachines") == ["vm"]


def test_a_refused_delete_removes_nothing(arm: ArmHarness) -> None:
    """What is stored below a machine stays while the machine does."""
    machine(arm)
    extension = f"{VM}/extensions/x"
    arm.put(extension, {"properties": {"a": 1}})
    assert arm.post(f"{VM}/restart").status == 202  # at once: no machine polls
    assert refused(arm.delete(VM)) == (409, "Conflict")
    assert arm.get(extension).status == 200
