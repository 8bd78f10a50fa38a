"""Locks on the subscription, on groups and on resources (C1)."""

from collections.abc import Callable

import pytest
from starlette.types import Message

from fairwarning.core.commands import CreateScope
from fairwarning.core.model import Machine, ScopeKind
from fairwarning.service import resources
from tests.arm.bodies import (
    ANN,
    COMPUTE,
    NIC,
    VM,
    VM_SCOPE,
    WEB,
    link,
    machine,
    network,
    nic,
    refused,
    scale_set,
)
from tests.arm.everything import state
from tests.arm.templates import deployment, resource
from tests.fixtures.arm import HOST, OPERATOR, SUBSCRIPTION, VERSION, ArmHarness
from tests.fixtures.http import Response, asgi_scope
from tests.fixtures.tokens import sign_token

pytestmark = pytest.mark.spec("C1")

RG = "/resourceGroups/rg"
LOCKS = "providers/Microsoft.Authorization/locks"
LOCKED = (409, "ScopeLocked")


def lock(arm: ArmHarness, path: str, level: str = "CanNotDelete", name: str = "keep") -> Response:
    """Create a lock, as `az lock create` does."""
    body = {"properties": {"level": level, "notes": "ask Ann"}}
    response = arm.put(f"{path}/{LOCKS}/{name}", body)
    assert response.status in {200, 201}, response.body
    return response


def unlock(arm: ArmHarness, path: str) -> None:
    """Delete the lock, as `az lock delete` does."""
    assert arm.delete(f"{path}/{LOCKS}/keep").status == 200


OTHER = f"{RG}/providers/Microsoft.Foo/bars/b"


@pytest.mark.parametrize(
    "path",
    [
        f"{OTHER}{COMPUTE.removeprefix(RG)}/virtualMachines",
        f"{OTHER}{WEB.removeprefix(RG)}/virtualMachines",
        f"{OTHER}/providers/Microsoft.Network/virtualNetworks/n/subnets",
        f"{OTHER}/providers/Microsoft.Resources/deployments",
        "/providers/Microsoft.Compute/virtualMachines",
    ],
)
def test_a_type_that_acts_in_another_place(arm: ArmHarness, path: str) -> None:
    """It does not exist there: nothing evades a lock, and nothing is written or deleted."""
    machine(arm)
    scale_set(arm)
    arm.put(OTHER, {})
    lock(arm, RG)
    before = state(arm)
    wrong = (404, "InvalidResourceType")
    for name in ("vm", "0", "new"):
        own = f"{path}/{name}"
        for method, end in (
            ("PUT", ""), ("PATCH", ""), ("GET", ""), ("DELETE", ""), ("POST", "/restart"),
            ("PUT", f"/{LOCKS}/x"), ("PUT", "/providers/Microsoft.Foo/bars/x"),
            ("GET", "/extensions"), ("PUT", "/extensions/x"),
        ):  # fmt: skip
            response = arm.request(method, f"{own}{end}", {"location": "local"})
            assert refused(response) == wrong, (method, end)
    if path.startswith(OTHER):
        assert refused(arm.get(path)) == wrong
    assert state(arm) == before


@pytest.mark.parametrize("path", ["", RG, VM])
def test_a_lock(arm: ArmHarness, path: str) -> None:
    """`az lock create|show|update|delete` and `az group lock` on each scope."""
    machine(arm)
    response = lock(arm, path)
    assert response.status == 201
    assert response.json == {
        "id": f"{SUBSCRIPTION}{path}/{LOCKS}/keep",
        "name": "keep",
        "type": "Microsoft.Authorization/locks",
        "properties": {"level": "CanNotDelete", "notes": "ask Ann"},
    }
    assert arm.get(f"{path}/{LOCKS}/KEEP").json == response.json
    assert lock(arm, path, "readonly", "Keep").json["properties"]["level"] == "ReadOnly"
    assert arm.get(f"{path}/{LOCKS}/keep").json["name"] == "keep"
    unlock(arm, path)
    assert refused(arm.get(f"{path}/{LOCKS}/keep")) == (404, "LockNotFound")
    assert arm.delete(f"{path}/{LOCKS}/keep").status == 204


def test_other_resources_are_not_locked(arm: ArmHarness) -> None:
    """A lock holds for its scope only, and for the instances of a scale set."""
    machine(arm)
    machine(arm, f"{COMPUTE}/virtualMachines/vm2")
    scale_set(arm)
    lock(arm, VM)
    lock(arm, WEB)
    assert arm.delete(f"{COMPUTE}/virtualMachines/vm2").status == 202
    assert refused(arm.delete(f"{WEB}/virtualMachines/0")) == LOCKED
    assert arm.post(f"{WEB}/delete", {"instanceIds": ["0"]}).status == 202  # an action
    unlock(arm, VM)
    unlock(arm, WEB)
    policy = "/providers/Microsoft.Authorization/policyDefinitions/one"
    arm.put(policy, {})
    lock(arm, policy)
    assert arm.delete(RG).status == 202


NAMES = {
    "Uniform": (f"{WEB}/virtualMachines/0", f"{WEB}/virtualMachines/WEB_0"),
    "Flexible": (
        f"{WEB}/virtualMachines/0",
        f"{WEB}/virtualMachines/web_0",
        f"{COMPUTE}/virtualMachines/web_0",
    ),
}
"""The paths of the first instance."""


@pytest.mark.parametrize(
    ("mode", "locked"), [(mode, path) for mode, paths in NAMES.items() for path in (*paths, WEB)]
)
def test_an_instance_with_several_names(arm: ArmHarness, mode: str, locked: str) -> None:
    """Its lock, and one of its set, hold under each name; its own can be read under each."""
    scale_set(arm, orchestrationMode=mode)
    document = lock(arm, locked, "ReadOnly").json
    for path in NAMES[mode]:
        for method, end in (
            ("DELETE", ""), ("PATCH", ""), ("POST", "/restart"), ("PUT", "/extensions/x"),
        ):  # fmt: skip
            assert refused(arm.request(method, f"{path}{end}", {})) == LOCKED, (method, path, end)
        if locked != WEB:
            assert arm.get(f"{path}/{LOCKS}/keep").json == document
            assert arm.get(f"{path}/{LOCKS}").json["value"] == [document]
    unlock(arm, WEB if locked == WEB else NAMES[mode][-1])
    assert arm.delete(NAMES[mode][0]).status == 202


def test_a_lock_that_is_created_while_the_body_is_sent(arm: ArmHarness) -> None:
    """A client may send slowly; what it then asks for is refused."""
    machine(arm)
    sent: list[Message] = []

    async def lock_and_receive() -> Message:
        body = {"properties": {"level": "CanNotDelete"}}
        assert (await arm.send_async("PUT", f"{VM}/{LOCKS}/keep", body)).status == 201
        return {"type": "http.request", "body": b"{}"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = {"host": HOST, "authorization": f"Bearer {sign_token(arm.tokens, OPERATOR)}"}
    path = f"{SUBSCRIPTION}{VM}?api-version={VERSION}"
    arm.run(arm.app(asgi_scope("DELETE", path, headers.items()), lock_and_receive, send))
    assert sent[0]["status"] == 409
    assert arm.get(VM).json["properties"]["provisioningState"] == "Succeeded"


def test_a_group_with_locks_of_deleted_resources(arm: ArmHarness) -> None:
    """The lock of a machine that the service deleted by itself does not keep the group."""
    machine(arm, priority="Spot", evictionPolicy="Delete")
    lock(arm, VM)
    assert arm.post(f"{VM}/simulateEviction").status == 204
    arm.advance(3600)
    assert arm.get(VM).status == 404
    assert arm.delete(RG).status == 202
    assert arm.get(RG).status == 404
    assert arm.get(f"/{LOCKS}").json["value"] == []


def evicted(arm: ArmHarness) -> str:
    """Create a machine that the service deletes by itself."""
    return machine(arm, priority="Spot", evictionPolicy="Delete")


def machine_of_operator(arm: ArmHarness) -> str:
    """Create the machine without a request: no lock holds for the operator."""
    machines = (Machine(name="vm"),)
    create = CreateScope(scope=VM_SCOPE, kind=ScopeKind.STANDALONE, machines=machines, group="rg")
    arm.do(resources.create(create, "rg"))
    return VM


def interface(arm: ArmHarness) -> str:
    """Create an interface that is deleted with its machine."""
    network(arm)
    nic(arm)
    entry = {**link(NIC), "properties": {"deleteOption": "Delete"}}
    machine(arm, networkProfile={"networkInterfaces": [entry]})
    return NIC


def flexible_instance(arm: ArmHarness) -> str:
    """Create a machine of a Flexible set."""
    scale_set(arm, orchestrationMode="Flexible")
    return f"{COMPUTE}/virtualMachines/web_0"


@pytest.mark.parametrize(
    ("create", "below", "end", "again"),
    [
        (evicted, "", f"{VM}/simulateEviction", evicted),
        (evicted, "/extensions/x", f"{VM}/simulateEviction", evicted),
        (evicted, "", f"{VM}/simulateEviction", machine_of_operator),
        (interface, "", VM, nic),
        (flexible_instance, "", WEB, flexible_instance),
    ],
)
def test_a_lock_ends_with_its_scope(
    arm: ArmHarness,
    create: Callable[[ArmHarness], str],
    below: str,
    end: str,
    again: Callable[[ArmHarness], object],
) -> None:
    """It is in no list, can be deleted, and does not hold for a new resource of the name."""
    path = f"{create(arm)}{below}"
    if below:
        arm.put(path, {})
    for name in ("keep", "more"):
        lock(arm, path, "ReadOnly" if below else "CanNotDelete", name)
    method = "POST" if end.endswith("simulateEviction") else "DELETE"
    assert arm.request(method, end).status in {202, 204}
    arm.advance(3600)
    assert arm.get(path).status == 404
    assert arm.get(f"/{LOCKS}").json["value"] == []
    assert arm.delete(f"{path}/{LOCKS}/more").status == 200
    again(arm)
    assert arm.get(f"/{LOCKS}").json["value"] == []
    assert arm.get(f"{path}/{LOCKS}/keep").status == 404
    if below:
        assert arm.put(path, {}).status == 201
    assert arm.delete(path).status in {200, 202}


def test_deployments(arm: ArmHarness) -> None:
    """A deployment does not write a resource that is ReadOnly."""
    machine(arm)
    lock(arm, VM, "ReadOnly")
    step = resource("Microsoft.Compute/virtualMachines", "vm", tags={"a": "b"})
    path = f"{RG}/providers/Microsoft.Resources/deployments/one"
    assert arm.put(path, deployment(step)).status == 201
    (detail,) = arm.get(path).json["properties"]["error"]["details"]
    assert detail["code"] == "ScopeLocked"
    assert "tags" not in arm.get(VM).json


def test_lists(arm: ArmHarness) -> None:
    """`az lock list`: a scope and what is in it; with atScope(), what is around it."""
    machine(arm)
    machine(arm, VM.replace("rg", "other"))
    paths = ["", RG, VM, VM.replace("rg", "other")]
    for number, path in enumerate(paths):
        lock(arm, path, name=f"l{number}")

    def listed(path: str, **query: str) -> set[str]:
        value = arm.get(f"{path}/{LOCKS}", **query).json["value"]
        return {entry["name"] for entry in value}

    assert listed("") == {"l0", "l1", "l2", "l3"}
    assert listed(RG) == {"l1", "l2"}
    assert listed(VM) == {"l0", "l1", "l2"}
    at_scope = {"$filter": "atScope()"}
    assert listed(RG, **at_scope) == {"l0", "l1"}
    value = arm.get(f"/{LOCKS}", principal=ANN).json["value"]
    assert {entry["name"] for entry in value} == {"l1", "l2"}
    response = arm.get(f"{RG}/{LOCKS}", **{"$filter": "level eq 'ReadOnly'"})
    assert refused(response) == (400, "InvalidFilterInQueryString")


def test_refusals(arm: ArmHarness) -> None:
    """Bad input names what is allowed, and creates no lock."""
    machine(arm)
    for properties, text in (
        ({}, "CanNotDelete, ReadOnly"),
        ({"level": "Never"}, "CanNotDelete, ReadOnly"),
        ({"level": "ReadOnly", "notes": "x" * 513}, "512 characters"),
    ):
        response = arm.put(f"{VM}/{LOCKS}/keep", {"properties": properties})
        assert refused(response) == (400, "InvalidParameter")
        assert text in response.error_message
    missing = arm.put(f"{VM}2/{LOCKS}/keep", {"properties": {"level": "ReadOnly"}})
    assert refused(missing) == (404, "ResourceNotFound")
    assert arm.get(f"/{LOCKS}").json["value"] == []
    body = {"properties": {"level": "ReadOnly"}}
    assert arm.put(f"/{LOCKS}/keep", body, principal=ANN).status == 403
