import asyncio

import pytest
from starlette.requests import Request

from fairwarning.arm.http.request import ArmRequest
from fairwarning.arm.resources import deployments
from fairwarning.arm.types import deployment_queue
from fairwarning.service.tokens import Principal
from tests.arm.bodies import ANN, WEB, WEB_SCOPE, created, refused
from tests.arm.templates import TEMPLATE, Json, deployment, hold_deployments, resource
from tests.fixtures.arm import OPERATOR, SUBSCRIPTION, VERSION, ArmHarness
from tests.fixtures.http import Response

RG = "/resourceGroups/rg"
DEPLOYMENTS = f"{RG}/providers/Microsoft.Resources/deployments"
DEPLOYMENT = f"{DEPLOYMENTS}/web_deploy_1"
NETWORK = f"{RG}/providers/Microsoft.Network"


def deploy(arm: ArmHarness, *resources: Json, **more: object) -> Response:
    """Deploy these resources."""
    return arm.put(DEPLOYMENT, deployment(*resources, **more))


def failed(arm: ArmHarness, response: Response) -> Json:
    """Return the error of a failed deployment, which its status reports."""
    assert response.status == 201
    status = arm.ended(response)
    assert status["status"] == "Failed"
    document = arm.get(DEPLOYMENT).json["properties"]
    assert (document["provisioningState"], document["error"]) == ("Failed", status["error"])
    error: Json = status["error"]
    return error


@pytest.mark.spec("C1", "T1")
def test_the_template_of_az_vmss_create(arm: ArmHarness) -> None:
    """Resources are created in the order of their dependencies; no secret is stored."""
    parameters = {"adminPassword": {"value": "s3cret-in-no-log"}}
    properties = {"mode": "incremental", "template": TEMPLATE, "parameters": parameters}
    accepted = arm.put(DEPLOYMENT, {"properties": properties})
    assert created(accepted)["properties"]["provisioningState"] == "Running"
    assert int(accepted.headers["retry-after"]) > 0
    assert arm.ended(accepted) == {"status": "Succeeded"}
    stored = arm.get(DEPLOYMENT).json
    assert stored["id"] == f"{SUBSCRIPTION}{DEPLOYMENT}"
    assert stored["properties"]["provisioningState"] == "Succeeded"
    output = stored["properties"]["outputs"]["VMSS"]
    assert output["type"].lower() == "object"
    assert output["value"]["provisioningState"] == "Succeeded"
    model = output["value"]["virtualMachineProfile"]
    group = model["networkProfile"]["networkInterfaceConfigurations"][0]["properties"]
    expected = f"{SUBSCRIPTION}{NETWORK}/networkSecurityGroups/webNSG"
    assert group["networkSecurityGroup"]["id"] == expected
    for kind, name in (
        ("virtualNetworks", "webVNET"),
        ("publicIPAddresses", "webIP"),
        ("loadBalancers", "webLB"),
        ("loadBalancers/webLB/inboundNatRules", "NatRule"),
    ):
        assert arm.get(f"{NETWORK}/{kind}/{name}").json["name"] == name
    document = arm.get(WEB).json
    assert document["sku"] == {"name": "Standard_DS1_v2", "tier": "Standard", "capacity": 2}
    notices = {machine.terminate_seconds for machine in arm.machines(WEB_SCOPE).values()}
    assert notices == {540}
    assert b"s3cret" not in arm.get(DEPLOYMENT).body + arm.get(WEB).body
    assert "s3cret" not in repr(vars(arm.store))
    assert [item["name"] for item in arm.get(DEPLOYMENTS).json["value"]] == ["web_deploy_1"]
    arm.delete(DEPLOYMENT)
    assert refused(arm.get(DEPLOYMENT)) == (404, "ResourceNotFound")
    assert arm.get(WEB).status == 200
    assert arm.delete(DEPLOYMENT).status == 204


@pytest.mark.spec("T1", "T2")
@pytest.mark.parametrize(
    ("version", "duration", "code", "text"),
    [
        (VERSION, "PT20M", "InvalidParameter", "PT5M to PT15M"),
        ("2018-10-01", "PT5M", "BadRequest", "Could not find member 'scheduledEventsProfile'"),
    ],
)
def test_an_error_is_in_the_status(
    arm: ArmHarness, version: str, duration: str, code: str, text: str
) -> None:
    """A PUT returns 201, which clients require; the status is Failed with the error."""
    profile = {"terminateNotificationProfile": {"enable": True, "notBeforeTimeout": duration}}
    model = {"virtualMachineProfile": {"scheduledEventsProfile": profile}}
    kind = "Microsoft.Compute/virtualMachineScaleSets"
    scale_set = resource(kind, "web", sku={"capacity": 1}, properties=model, apiVersion=version)
    error = failed(arm, deploy(arm, scale_set))
    assert error["code"] == "DeploymentFailed"
    (reason,) = error["details"]
    assert (reason["code"], reason["target"]) == (code, f"{SUBSCRIPTION}{WEB}")
    assert text in reason["message"]
    assert arm.get(WEB).status == 404


def test_unknown_groups_names_and_statuses() -> None:
    """An unknown group or status returns 404, an invalid name 400."""
    with ArmHarness() as arm:
        assert refused(deploy(arm)) == (404, "ResourceGroupNotFound")
        assert refused(arm.get(DEPLOYMENTS)) == (404, "ResourceGroupNotFound")
        arm.group()
        assert refused(arm.get(DEPLOYMENT)) == (404, "ResourceNotFound")
        assert arm.put(f"{DEPLOYMENTS}/.", {}).status == 400
        deploy(arm)
        assert refused(arm.get(f"{DEPLOYMENT}/operationStatuses/x")) == (404, "NotFound")


def test_a_template_is_computed_beside_all_else(
    arm: ArmHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long computation delays neither the event loop nor the writes of others (IB4)."""
    others = hold_deployments(monkeypatch)
    arm.fleet.publisher.readers.append(others.set)  # called after the next write
    account = f"{RG}/providers/Microsoft.Storage/storageAccounts/a"
    deployed, written = arm.put_at_once({DEPLOYMENT: deployment(), account: {"location": "local"}})
    assert (deployed.status, written.status) == (201, 201)
    assert arm.ended(deployed) == {"status": "Succeeded"}


def test_tags_are_checked_before_anything_is_deployed(arm: ArmHarness) -> None:
    """A deployment with wrong tags writes nothing."""
    network = resource("Microsoft.Network/virtualNetworks", "net")
    response = arm.put(DEPLOYMENT, {"tags": "x", **deployment(network)})
    assert refused(response) == (400, "InvalidParameter")
    assert arm.get(f"{NETWORK}/virtualNetworks/net").status == 404


def test_deployments_of_several_clients(arm: ArmHarness) -> None:
    """A client's deployments wait for each other, and another client's for one of them at most."""
    principals = [ANN, ANN, ANN, OPERATOR]
    order: list[str] = []

    async def send(principal: Principal, number: int) -> None:
        path = f"{DEPLOYMENTS}/d{number}"
        assert (await arm.send_async("PUT", path, deployment(), principal)).status == 201
        order.append(principal.name)

    async def send_all() -> None:
        await asyncio.gather(*map(send, principals, range(4)))

    arm.run(send_all())
    assert order.index(OPERATOR.name) < 3


@pytest.mark.parametrize("waiting", [1, 0])
def test_a_deployment_does_not_wait_for_ever(
    arm: ArmHarness, waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with 503 if another one goes on for too long, or if too many wait; reads go on."""
    monkeypatch.setattr(deployment_queue, "WAIT_SECONDS", 0)
    other = ArmRequest(Request({"type": "http", "path": ""}), {}, OPERATOR, "")

    async def deploy_beside() -> Response:
        async with arm.app.context.deploying(other):
            monkeypatch.setattr(deployment_queue, "WAITING_MAX", waiting)
            return await arm.send_async("PUT", DEPLOYMENT, {})

    response = arm.run(deploy_beside())
    assert (response.status, response.headers["retry-after"]) == (503, "5")
    assert arm.get(DEPLOYMENT).status == 404


@pytest.mark.parametrize(
    "kind", ["Microsoft.Resources/deployments/", "/Microsoft.RESOURCES/deployments"]
)
def test_a_nested_deployment_by_another_spelling(arm: ArmHarness, kind: str) -> None:
    """It is a part of the deployment, and does not wait for its end."""
    network = resource("Microsoft.Network/virtualNetworks", "[parameters('name')]")
    parameters = {"name": {"type": "string", "defaultValue": "net"}}
    properties = {
        "mode": "Incremental",
        "expressionEvaluationOptions": {"scope": "inner"},
        "template": {"parameters": parameters, "resources": [network]},
    }
    nested = resource(kind, "inner", apiVersion=VERSION, properties=properties)
    assert arm.ended(deploy(arm, nested)) == {"status": "Succeeded"}
    assert arm.get(f"{DEPLOYMENTS}/inner").status == 200
    assert arm.get(f"{NETWORK}/virtualNetworks/net").status == 200


def test_a_deployment_that_sends_itself_another(
    arm: ArmHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused: the other one would wait for this one."""
    monkeypatch.setattr(deployments, "DEPLOYMENT", "")  # nothing is a nested deployment
    nested = resource("Microsoft.Resources/deployments", "inner", apiVersion=VERSION)
    error = failed(arm, deploy(arm, {**nested, **deployment()}))
    assert [reason["code"] for reason in error["details"]] == ["InvalidTemplate"]


def test_the_text_of_a_nested_template_counts_once(arm: ArmHarness) -> None:
    """A template that is long because of its nested templates is deployed."""
    long = {"resources": [], "metadata": {"text": ["x" * 1000] * 1400}}
    properties = {"mode": "Incremental", "template": long}
    kind = "Microsoft.Resources/deployments"
    response = deploy(arm, resource(kind, "inner", apiVersion=VERSION, properties=properties))
    assert arm.ended(response) == {"status": "Succeeded"}


def test_a_template_of_too_many_values(arm: ArmHarness) -> None:
    """It is refused before it is read."""
    response = deploy(arm, variables={"a": [0] * 200_001})
    assert refused(response) == (413, "RequestContentTooLarge")
