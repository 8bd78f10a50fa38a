"""What each verb does is the same for all types: with a record, nested, or only stored (C1, C8)."""

from collections.abc import Iterable

import pytest

from fairwarning.core.commands import Command, Remove
from fairwarning.core.model import Operation
from tests.arm.bodies import COMPUTE, DISK, VM, WEB, names, refused, scale_set
from tests.arm.everything import state
from tests.arm.type_samples import (
    PLACE,
    RG,
    SAMPLES,
    STORED,
    WITH_RECORD,
    Json,
    TypeSample,
    label,
    without_etags,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C1", "C8")

NEW = {"If-None-Match": "*"}
LOCKED = (409, "ScopeLocked")
PRECONDITION = (412, "PreconditionFailed")
INSTANCES = {
    f"{WEB}/virtualMachines/1": "Uniform",
    f"{COMPUTE}/virtualMachines/web_1": "Flexible",
}
TAGS = "providers/Microsoft.Resources/tags/default"
TAGGED = [sample for sample in SAMPLES if not sample.part]
IN_GROUP = [sample for sample in SAMPLES if sample.in_group]


def of_types(samples: Iterable[TypeSample] = SAMPLES) -> pytest.MarkDecorator:
    """Run a test for each of these types."""
    return pytest.mark.parametrize("sample", samples, ids=label)


# --- PUT, GET, HEAD and lists ---------------------------------------------------------------------


@of_types()
def test_put_and_get(arm: ArmHarness, sample: TypeSample) -> None:
    """A PUT returns the document that GET reads, in any case; HEAD says that it exists."""
    sample.prepare(arm)
    assert arm.request("HEAD", sample.path).status == 404
    response = arm.put(sample.path, sample.body, headers=NEW)
    assert response.status == sample.new_status, response.body
    document = response.json
    members = (document["id"], document["name"], document["type"])
    assert members == (sample.id, sample.name, sample.kind)
    assert document["properties"]["theirs"] == {"own": [1]}
    if not sample.part:
        assert (document["location"], document["tags"]) == ("westus", {"a": "b"})
    if "availabilitySets" not in sample.kind:  # which have none on Azure, either
        assert document["properties"]["provisioningState"] == "Succeeded"
    assert arm.get(sample.path).json == document
    assert arm.get(f"/{sample.id.upper()}").json == document
    head = arm.request("HEAD", sample.path)
    assert (head.status, head.body) == (204, b"")
    assert "content-length" not in head.headers


@of_types()
def test_put_again(arm: ArmHarness, sample: TypeSample) -> None:
    """Writing a document back changes nothing; the first spelling of a name stays."""
    document = sample.create(arm)
    again = arm.put(sample.path.replace("/one", "/ONE"), document)
    assert again.status == 200, again.body
    assert without_etags(again.json) == without_etags(document)
    assert without_etags(arm.get(sample.path).json) == without_etags(document)
    assert names(arm, sample.list_path) == ["one"]


@of_types()
def test_lists(arm: ArmHarness, sample: TypeSample) -> None:
    """The lists of the parent, the group and the subscription have what GET reads."""
    sample.prepare(arm)
    assert arm.get(sample.list_path).json == {"value": []}
    document = sample.create(arm)
    paths = [sample.list_path]
    if sample.outermost:
        paths.append(f"/providers/{sample.kind}")
    for path in paths:
        head, listed = arm.request("HEAD", path), arm.get(path)
        assert listed.json == {"value": [document]}, path
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == listed.headers["content-length"]


@of_types(TAGGED)
def test_the_list_of_all_resources(arm: ArmHarness, sample: TypeSample) -> None:
    """It has the common members of resources; nested ones are not in it."""
    document = sample.create(arm)
    common = ("id", "name", "type", "location", "tags")
    for path in ("/resources", f"{RG}/resources"):
        is_listed = sample.outermost or (not sample.in_group and RG not in path)
        expected = [{name: document[name] for name in common}] if is_listed else []
        listed = arm.get(path, **{"$filter": f"resourceType eq '{sample.kind}'"}).json["value"]
        assert [{name: entry[name] for name in common} for entry in listed] == expected


@of_types(IN_GROUP)
def test_another_group(arm: ArmHarness, sample: TypeSample) -> None:
    """Resources of the same name in another group are others."""
    arm.group("other")
    sample.create(arm)
    assert arm.get(sample.path.replace("/rg/", "/other/")).status == 404
    if sample.outermost:
        assert names(arm, sample.list_path.replace("/rg/", "/other/")) == []


# --- PATCH ----------------------------------------------------------------------------------------


@of_types()
def test_patch(arm: ArmHarness, sample: TypeSample) -> None:
    """A PATCH merges into what is there, replaces tags, and creates nothing."""
    change: Json = {"properties": {"theirs": {"new": 2}}}
    if not sample.part:
        change["tags"] = {"c": "d"}
    sample.prepare(arm)
    before = state(arm)
    assert refused(arm.patch(sample.path, change)) == (404, "ResourceNotFound")
    assert state(arm) == before
    document = sample.create(arm)
    response = arm.patch(sample.path, change)
    assert response.status == 200, response.body
    after = arm.get(sample.path).json
    assert without_etags(response.json) == without_etags(after)
    assert after.pop("properties")["theirs"] == {"own": [1], "new": 2}
    document.pop("properties")
    tags = {} if sample.part else {"tags": {"c": "d"}}
    assert without_etags(after) == {**without_etags(document), **tags}


# --- Conditions -----------------------------------------------------------------------------------


@of_types()
def test_conditions(arm: ArmHarness, sample: TypeSample) -> None:
    """If-Match and If-None-Match prevent overwriting another state."""
    sample.prepare(arm)
    for etag in ('"99"', "*"):
        none = arm.put(sample.path, sample.body, headers={"If-Match": etag})
        assert refused(none) == PRECONDITION
    assert arm.get(sample.path).status == 404
    first = arm.put(sample.path, sample.body, headers=NEW).headers["etag"]
    assert refused(arm.put(sample.path, sample.body, headers=NEW)) == PRECONDITION
    second = arm.put(sample.path, sample.body, headers={"If-Match": first})
    assert second.status == 200
    assert second.headers["etag"] != first
    before = arm.get(sample.path).json
    late = arm.patch(sample.path, {"properties": {"x": 1}}, headers={"If-Match": first})
    assert refused(late) == PRECONDITION
    assert refused(arm.delete(sample.path, headers={"If-Match": first})) == PRECONDITION
    assert arm.get(sample.path).json == before
    etag = arm.patch(sample.path, {}, headers={"If-Match": "*"}).headers["etag"]
    assert arm.delete(sample.path, headers={"If-Match": etag}).status in {200, 202}


@pytest.mark.parametrize("path", [f"{RG}/providers/Acme.X/y/a", DISK, VM, WEB, *INSTANCES])
def test_a_resource_that_changes_while_it_is_deleted(
    arm: ArmHarness, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delete names the state that the client knows, and no other is deleted."""
    submit = arm.fleet.submit

    async def change_and_submit(command: Command) -> Operation | None:
        if isinstance(command, Remove):
            assert (await arm.send_async("PATCH", path, {"tags": {"a": "b"}})).status == 200
        return await submit(command)

    if path in INSTANCES:
        scale_set(arm, orchestrationMode=INSTANCES[path])
        for etag in ('"1"', '"77"'):  # it has none before it is written
            assert refused(arm.delete(path, headers={"If-Match": etag})) == PRECONDITION
    body = {"location": "local", "properties": {"diskSizeGB": 4}}
    etag = arm.put(path, body).headers["etag"]
    with monkeypatch.context() as patch:
        patch.setattr(arm.fleet, "submit", change_and_submit)
        assert refused(arm.delete(path, headers={"If-Match": etag})) == PRECONDITION
    assert arm.get(path).json["tags"] == {"a": "b"}
    etag = arm.patch(path, {}).headers["etag"]
    assert arm.delete(path, headers={"If-Match": etag}).status in {200, 202}
    arm.advance(60)
    assert arm.get(path).status == 404


# --- DELETE ---------------------------------------------------------------------------------------


@of_types()
def test_delete(arm: ArmHarness, sample: TypeSample) -> None:
    """What is deleted is in no list, and can be created again; deleting nothing gets 204."""
    sample.create(arm)
    response = arm.delete(sample.path)
    assert response.status in {200, 202}, response.body
    arm.advance(60)
    if response.status == 202:
        assert arm.ended(response)["status"] == "Succeeded"
    assert refused(arm.get(sample.path)) == (404, "ResourceNotFound")
    assert arm.get(sample.list_path).json == {"value": []}
    assert arm.delete(sample.path).status == 204
    assert arm.put(sample.path, sample.body, headers=NEW).status == sample.new_status


@of_types([sample for sample in SAMPLES if sample.needs])
def test_delete_the_parent(arm: ArmHarness, sample: TypeSample) -> None:
    """A nested resource goes with its parent: a new one of the same name has none."""
    sample.create(arm)
    parent, _ = sample.needs[0]
    assert arm.delete(parent).status in {200, 202}
    arm.advance(60)
    assert arm.get(sample.path).status == 404
    sample.prepare(arm)
    assert names(arm, sample.list_path) == []


@of_types([sample for sample in SAMPLES if sample.needs])
def test_a_parent_is_required(arm: ArmHarness, sample: TypeSample) -> None:
    """Without it, nothing is written, and there is no list."""
    before = state(arm)
    assert refused(arm.put(sample.path, sample.body)) == (404, "ParentResourceNotFound")
    assert refused(arm.get(sample.path)) == (404, "ResourceNotFound")
    assert arm.get(sample.list_path).status == 404
    assert arm.delete(sample.path).status == 204
    assert state(arm) == before


@of_types(IN_GROUP)
def test_delete_the_group(arm: ArmHarness, sample: TypeSample) -> None:
    """A group is deleted with all that is in it, and nothing is written to it meanwhile."""
    slow = f"{RG}/providers/Microsoft.Compute/virtualMachines/slow"
    profile = {"terminateNotificationProfile": {"enable": True, "notBeforeTimeout": "PT5M"}}
    sample.create(arm)
    arm.put(slow, {**PLACE, "properties": {"scheduledEventsProfile": profile}})
    arm.poll("rg:slow")
    accepted = arm.delete(RG)
    response = arm.put(sample.path.replace("/one", "/two"), sample.body)
    assert response.status == 409 or sample.needs, response.body
    assert response.error_code in {
        "ResourceGroupBeingDeleted", "ParentResourceNotFound", "Conflict",
    }  # fmt: skip
    arm.advance(400)
    assert arm.ended(accepted)["status"] == "Succeeded"
    assert refused(arm.get(sample.path)) == (404, "ResourceGroupNotFound")
    sample.prepare(arm)
    assert refused(arm.get(sample.path)) == (404, "ResourceNotFound")
    assert names(arm, sample.list_path) == []


@of_types(IN_GROUP)
def test_an_unknown_group(sample: TypeSample) -> None:
    """Every request to it gets the same error, and nothing is created."""
    with ArmHarness() as arm:
        before = state(arm)
        for response in (
            arm.put(sample.path, sample.body),
            arm.patch(sample.path, sample.body),
            arm.get(sample.path),
            arm.delete(sample.path),
        ):
            assert refused(response) == (404, "ResourceGroupNotFound")
        if sample.outermost:
            assert refused(arm.get(sample.list_path)) == (404, "ResourceGroupNotFound")
        assert state(arm) == before


# --- Bodies ---------------------------------------------------------------------------------------


@of_types()
def test_bad_bodies(arm: ArmHarness, sample: TypeSample) -> None:
    """They are refused with a reason, and neither create nor change anything."""
    many = {f"t{number}": "x" for number in range(51)}
    bad: list[object] = [[], "x", 1]
    if not sample.part:
        bad += [{**PLACE, "tags": tags} for tags in ({"a": 1}, ["a"], many)]
    if sample.acts:
        bad += [{**PLACE, "properties": 1}, {**PLACE, "properties": [1]}]
    if sample.acts and not sample.part:
        bad += [{**PLACE, "location": 1}, {**PLACE, "location": {}}]
    sample.prepare(arm)
    for create in (False, True):
        if create:
            sample.create(arm)
        before = state(arm)
        for body in bad:
            response = arm.put(sample.path, body)
            assert response.status == 400, (body, response.body)
            assert response.error_code in {"InvalidParameter", "InvalidRequestContent"}
        assert state(arm) == before


@of_types(WITH_RECORD)
def test_a_location_is_required(arm: ArmHarness, sample: TypeSample) -> None:
    """A new resource that acts has one; a stored one need not."""
    assert refused(arm.put(sample.path, {})) == (400, "LocationRequired")
    assert arm.get(sample.path).status == 404


@of_types()
@pytest.mark.parametrize("name", [".", "a.", "a<b", "x" * 261, "a\\b", "a&b"])
def test_bad_names(arm: ArmHarness, sample: TypeSample, name: str) -> None:
    """They are refused with what is allowed."""
    sample.prepare(arm)
    response = arm.put(f"{sample.list_path}/{name}", sample.body)
    assert refused(response) == (400, "InvalidParameter")
    assert names(arm, sample.list_path) == []


# --- Tags -----------------------------------------------------------------------------------------


@of_types([sample for sample in TAGGED if sample.in_group])
def test_tags(arm: ArmHarness, sample: TypeSample) -> None:
    """`az tag create|update|list|delete --resource-id` write the resource's own tags."""
    path = f"{sample.path}/{TAGS}"
    steps = (
        ("PUT", "", {"owner": "ann", "stage": "test"}, {"owner": "ann", "stage": "test"}),
        ("PATCH", "Merge", {"Stage": "live"}, {"owner": "ann", "Stage": "live"}),
        ("PATCH", "delete", {"OWNER": "ann", "stage": "other"}, {"Stage": "live"}),
        ("PATCH", "Replace", {"only": "this"}, {"only": "this"}),
    )
    sample.create(arm)
    for method, operation, sent, expected in steps:
        body = {"operation": operation, "properties": {"tags": sent}}
        response = arm.request(method, path, body)
        assert response.status == 200, response.body
        assert response.json["id"] == f"{SUBSCRIPTION}{path}"
        assert arm.get(path).json["properties"]["tags"] == expected
        assert arm.get(sample.path).json["tags"] == expected
    assert arm.delete(path).status == 200
    assert arm.get(path).json["properties"]["tags"] == {}
    assert arm.get(sample.path).json.get("tags", {}) == {}
    assert refused(arm.get(path.replace("/one/", "/none/")))[0] == 404


# --- Locks ----------------------------------------------------------------------------------------


def lock(arm: ArmHarness, path: str, level: str) -> str:
    """Create a lock, as `az lock create` does; return its path."""
    lock = f"{path}/providers/Microsoft.Authorization/locks/keep"
    response = arm.put(lock, {"properties": {"level": level}})
    assert response.status in {200, 201}, response.body
    return lock


@of_types()
@pytest.mark.parametrize("scope", ["subscription", "group", "resource"])
def test_locks(arm: ArmHarness, sample: TypeSample, scope: str) -> None:
    """CanNotDelete refuses DELETE, and ReadOnly every write, of all that is in the scope."""
    group = RG if sample.in_group else ""
    scopes = {"subscription": "", "group": group, "resource": sample.path}
    sample.create(arm)
    path = lock(arm, scopes[scope], "CanNotDelete")
    response = arm.delete(sample.path)
    assert refused(response) == LOCKED
    assert "(lock 'keep', CanNotDelete)" in response.error_message
    if sample.in_group:
        assert refused(arm.delete(RG)) == LOCKED
    assert arm.patch(sample.path, {"properties": {"x": 1}}).status == 200
    lock(arm, scopes[scope], "ReadOnly")
    before = state(arm)
    for method, suffix in (
        ("PUT", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/restart"), ("PUT", f"/{TAGS}"),
    ):  # fmt: skip
        response = arm.request(method, f"{sample.path}{suffix}", sample.body)
        if method == "POST" and response.status == 404:  # a type without actions
            continue
        assert refused(response) == LOCKED, (method, suffix, response.body)
    assert state(arm) == before
    assert arm.get(sample.path).status == 200
    assert arm.delete(path).status == 200
    assert arm.delete(sample.path).status in {200, 202}


# --- What the response says -----------------------------------------------------------------------


@of_types()
def test_stored_types_say_so(arm: ArmHarness, sample: TypeSample) -> None:
    """A header says that nothing acts on a stored resource, and only then."""
    sample.prepare(arm)
    responses = [
        arm.put(sample.path, sample.body),
        arm.patch(sample.path, {}),
        arm.get(sample.path),
    ]
    for response in responses:
        assert response.status < 300
        header = response.headers.get("x-fairwarning-stored-only", "")
        assert bool(header) is (sample in STORED)
        assert sample.acts or f"'{sample.kind}'" in header
