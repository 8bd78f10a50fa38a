from typing import Any

import pytest

from fairwarning.service.tokens import Principal, Role
from tests.arm.bodies import COMPUTE, VM, WEB, WEB_SCOPE, actors, created, refused
from tests.arm.templates import TEMPLATE, resource
from tests.fixtures.arm import SUBSCRIPTION, VERSION, ArmHarness
from tests.fixtures.http import Response

Json = dict[str, Any]

RG = "/resourceGroups/rg"
DEPLOYMENTS = f"{RG}/providers/Microsoft.Resources/deployments"
DEPLOYMENT = f"{DEPLOYMENTS}/web_deploy_1"
NETWORK = f"{RG}/providers/Microsoft.Network"


def deploy(arm: ArmHarness, *resources: Json, **more: object) -> Response:
    """A deployment of these resources."""
    template = {"resources": [*resources], **more}
    return arm.put(DEPLOYMENT, {"properties": {"mode": "Incremental", "template": template}})


def whole(arm: ArmHarness) -> Response:
    """The one that `az vmss create` asks for."""
    parameters = {"adminPassword": {"value": "s3cret-in-no-log"}}
    properties = {"mode": "incremental", "template": TEMPLATE, "parameters": parameters}
    return arm.put(DEPLOYMENT, {"properties": properties})


def failed(arm: ArmHarness, answer: Response) -> Json:
    """Why a deployment failed: told by its status, as Azure's own tools expect."""
    assert answer.status == 201
    status = arm.ended(answer)
    assert status["status"] == "Failed"
    shown = arm.get(DEPLOYMENT).json["properties"]
    assert (shown["provisioningState"], shown["error"]) == ("Failed", status["error"])
    error: Json = status["error"]
    return error


# --- What works -----------------------------------------------------------------------------------


@pytest.mark.spec("C1", "T1")
def test_what_the_azure_cli_sends_for_a_scale_set() -> None:
    """All of it is made, in the order that it needs; the set comes back as an output."""
    with ArmHarness() as arm:
        arm.group()
        asked = whole(arm)
        assert created(asked)["properties"]["provisioningState"] == "Running"
        assert int(asked.headers["retry-after"]) > 0
        assert arm.ended(asked) == {"status": "Succeeded"}
        shown = arm.get(DEPLOYMENT).json
        assert shown["id"] == f"{SUBSCRIPTION}{DEPLOYMENT}"
        assert shown["properties"]["provisioningState"] == "Succeeded"
        output = shown["properties"]["outputs"]["VMSS"]
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
        made = arm.get(WEB).json
        assert made["sku"] == {"name": "Standard_DS1_v2", "tier": "Standard", "capacity": 2}
        notices = {one.terminate_seconds for one in arm.machines(WEB_SCOPE).values()}
        assert notices == {540}


def test_deployments_are_kept_without_their_secrets() -> None:
    """Listed, read and deleted; neither template nor parameters stay anywhere."""
    with ArmHarness() as arm:
        arm.group()
        whole(arm)
        assert [one["name"] for one in arm.get(DEPLOYMENTS).json["value"]] == ["web_deploy_1"]
        assert b"s3cret" not in arm.get(DEPLOYMENT).body + arm.get(WEB).body
        assert "s3cret" not in repr(vars(arm.store))
        assert arm.get(f"{DEPLOYMENT}/operations").json == {"value": []}
        arm.delete(DEPLOYMENT)
        assert refused(arm.get(DEPLOYMENT)) == (404, "ResourceNotFound")
        assert arm.get(WEB).status == 200
        assert arm.delete(DEPLOYMENT).status == 204


def test_the_same_again() -> None:
    """Nothing is made twice, and what was written is merged into what is there."""
    with ArmHarness() as arm:
        arm.group()
        first = whole(arm)
        before = arm.get(WEB).json
        second = whole(arm)
        assert arm.ended(second) == {"status": "Succeeded"}
        assert {**arm.get(WEB).json, "etag": ""} == {**before, "etag": ""}
        assert arm.follow(first.headers["azure-asyncoperation"]).status in {200, 404}


def test_a_machine_in_an_availability_set() -> None:
    """In whatever order a template tells them."""
    with ArmHarness() as arm:
        arm.group()
        owner = "[resourceId('Microsoft.Compute/availabilitySets', 'av')]"
        answer = deploy(
            arm,
            resource(
                "Microsoft.Compute/virtualMachines",
                "vm",
                owner,
                properties={"availabilitySet": {"id": owner}},
            ),
            resource("Microsoft.Compute/availabilitySets", "av"),
        )
        assert arm.ended(answer) == {"status": "Succeeded"}
        assert list(arm.machines("as:rg:av")) == ["vm"]


def test_secret_outputs_are_not_kept() -> None:
    """A deployment says that there was one, and no more."""
    with ArmHarness() as arm:
        arm.group()
        outputs = {"key": {"type": "securestring", "value": "s3cret"}}
        answer = deploy(arm, outputs=outputs)
        assert arm.ended(answer) == {"status": "Succeeded"}
        assert b"s3cret" not in arm.get(DEPLOYMENT).body
        assert "s3cret" not in repr(vars(arm.store))


def test_validation_makes_nothing() -> None:
    """It says what would be made, or what is wrong."""
    with ArmHarness() as arm:
        arm.group()
        properties = {"mode": "Incremental", "template": TEMPLATE}
        parameters = {"adminPassword": {"value": "x"}}
        body = {"properties": {**properties, "parameters": parameters}}
        answer = arm.post(f"{DEPLOYMENT}/validate", body)
        assert answer.status == 200
        ids = [one["id"] for one in answer.json["properties"]["validatedResources"]]
        assert f"{SUBSCRIPTION}{WEB}" in ids
        missing = arm.post(f"{DEPLOYMENT}/validate", {"properties": properties})
        assert refused(missing) == (400, "InvalidTemplate")
        assert "adminPassword" in missing.error_message
        assert arm.get(WEB).status == arm.get(DEPLOYMENT).status == 404


# --- What does not --------------------------------------------------------------------------------


@pytest.mark.spec("T1", "T2")
@pytest.mark.parametrize(
    ("version", "duration", "code", "text"),
    [
        (VERSION, "PT20M", "InvalidParameter", "PT5M to PT15M"),
        ("2018-10-01", "PT5M", "BadRequest", "Could not find member 'scheduledEventsProfile'"),
    ],
)
def test_a_refusal_is_told_by_the_status(version: str, duration: str, code: str, text: str) -> None:
    """201 first, because a client breaks on anything else; then Failed, with code and message."""
    told = {"terminateNotificationProfile": {"enable": True, "notBeforeTimeout": duration}}
    model = {"virtualMachineProfile": {"scheduledEventsProfile": told}}
    kind = "Microsoft.Compute/virtualMachineScaleSets"
    with ArmHarness() as arm:
        arm.group()
        one = resource(kind, "web", sku={"capacity": 1}, properties=model, apiVersion=version)
        error = failed(arm, deploy(arm, one))
        assert error["code"] == code
        assert text in error["message"]
        assert arm.get(WEB).status == 404


def test_what_cannot_be_deployed() -> None:
    """It is named; what came before it stays."""
    with ArmHarness() as arm:
        arm.group()
        answer = deploy(
            arm,
            resource("Microsoft.Compute/virtualMachines", "vm"),
            resource("Microsoft.Sand/castles", "c", "Microsoft.Compute/virtualMachines/vm"),
        )
        assert "Microsoft.Sand/castles" in failed(arm, answer)["message"]
        assert arm.get(VM).status == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"properties": 1},
        {"properties": {"mode": "Incremental"}},
        {"properties": {"template": {"resources": [1]}}},
        {"properties": {"mode": 1, "template": {"resources": [resource("a", "b")]}}},
        {"properties": {"template": {"outputs": {"x": {"type": "string", "value": "[y()]"}}}}},
        {"properties": {"template": {"resources": [resource("a/b", "c", "a/b/c")]}}},
    ],
)
def test_what_is_no_template(body: Json) -> None:
    """It fails as everything else does, and leaves nothing behind."""
    with ArmHarness() as arm:
        arm.group()
        error = failed(arm, arm.put(DEPLOYMENT, body))
        assert error["code"] == "InvalidTemplate"
        assert arm.get(f"{COMPUTE}/virtualMachines").json == {"value": []}


def test_what_a_template_may_look_at() -> None:
    """Resources of its own group, and those that are there."""
    with ArmHarness() as arm:
        arm.group()
        arm.group("other")
        kind = "Microsoft.Compute/virtualMachines"
        arm.put(f"{COMPUTE}/virtualMachines/vm", {"location": "local"})
        for where, works in (
            (f"resourceId('{kind}', 'vm')", True),
            (f"resourceId('{kind}', 'none')", False),
            (f"resourceId('other', '{kind}', 'vm')", False),
        ):
            value = f"[reference({where}, '{VERSION}')]"
            answer = deploy(arm, outputs={"vm": {"type": "object", "value": value}})
            if works:
                assert arm.ended(answer)["status"] == "Succeeded"
            else:
                failed(arm, answer)


def test_where_there_is_no_group() -> None:
    """404; a name that is none, 400; a status that is another deployment's, 404."""
    with ArmHarness() as arm:
        assert refused(deploy(arm)) == (404, "ResourceGroupNotFound")
        assert refused(arm.get(DEPLOYMENTS)) == (404, "ResourceGroupNotFound")
        arm.group()
        assert refused(arm.get(DEPLOYMENT)) == (404, "ResourceNotFound")
        assert arm.put(f"{DEPLOYMENTS}/.", {}).status == 400
        deploy(arm)
        assert refused(arm.get(f"{DEPLOYMENT}/operationStatuses/x")) == (404, "NotFound")


def test_the_journal_says_who_it_was() -> None:
    """For all that a template makes."""
    with ArmHarness() as arm:
        arm.group()
        arm.principal = Principal(name="ann", role=Role.TENANT, group="rg")
        whole(arm)
        assert actors(arm, "SetCreated") == actors(arm, "MachineAdded") | {"ann"} == {"ann"}
