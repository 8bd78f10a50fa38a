"""Deployments as clients send and read them: template files, operations, nested deployments."""

import pytest

from tests.arm.bodies import ANN, VM, Json, refused
from tests.arm.templates import deployment, resource, send_text
from tests.fixtures.arm import HOST, SUBSCRIPTION, VERSION, ArmHarness
from tests.fixtures.tokens import sign_token

pytestmark = pytest.mark.spec("C1", "C2")
RG = "/resourceGroups/rg"
DEPLOYMENTS = f"{RG}/providers/Microsoft.Resources/deployments"
DEPLOYMENT = f"{DEPLOYMENTS}/main"
NETWORK = f"{RG}/providers/Microsoft.Network"
MACHINE = "Microsoft.Compute/virtualMachines"
NET = "Microsoft.Network/virtualNetworks"


def deploy(arm: ArmHarness, *resources: Json, **more: object) -> Json:
    """Deploy these resources, and return the properties of the deployment."""
    assert arm.put(DEPLOYMENT, deployment(*resources, **more)).status == 201
    document: Json = arm.get(DEPLOYMENT).json["properties"]
    return document


def nested(name: str, *resources: Json, **more: object) -> Json:
    """Return a nested deployment with inner scope."""
    inside = deployment(*resources, **more)["properties"]
    options = {"expressionEvaluationOptions": {"scope": "Inner"}}
    return {
        "type": "Microsoft.Resources/deployments",
        "name": name,
        "apiVersion": "2022-09-01",
        "properties": {**inside, **options},
    }


def test_what_if(arm: ArmHarness) -> None:
    """It is not offered, in a response that the Azure CLI shows."""
    preview = send_text(arm, "POST", f"{DEPLOYMENT}/whatIf", "{}")
    assert (preview.status, preview.json["status"]) == (200, "Failed")
    assert "What-if is not offered" in preview.json["error"]["message"]


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_text_that_cannot_be_read(arm: ArmHarness, method: str) -> None:
    """The error has the line of the template file; other requests need strict JSON."""
    path = DEPLOYMENT if method == "PUT" else f"{DEPLOYMENT}/validate"
    response = send_text(arm, method, path, '{\n  "a": 1\n  "b": 2\n}')
    assert refused(response) == (400, "InvalidRequestContent")
    assert "line 3: Expecting ',' delimiter" in response.error_message
    assert refused(send_text(arm, "PUT", VM, "{}")) == (400, "InvalidRequestContent")
    assert refused(send_text(arm, "PUT", DEPLOYMENT, "}} //")) == (400, "InvalidRequestContent")
    headers = {"authorization": f"Bearer {sign_token(arm.tokens, arm.principal)}"}
    query = f"api-version={VERSION}"
    listed = arm.send("PUT", f"{SUBSCRIPTION}{DEPLOYMENT}", query, b"[1]", headers)
    assert refused(listed) == (400, "InvalidRequestContent")


def test_api_versions_are_checked_first(arm: ArmHarness) -> None:
    """A version that the provider never had is refused before anything is written."""
    late = resource(MACHINE, "vm", "net", apiVersion="2024-11-02")
    error = deploy(arm, resource(NET, "net"), late)["error"]
    assert error["code"] == "NoRegisteredProviderFound"
    assert "'2024-11-02' for type 'virtualMachines'" in error["message"]
    assert arm.get(f"{NETWORK}/virtualNetworks/net").status == 404


def test_the_document_of_a_deployment(arm: ArmHarness) -> None:
    """It has parameters, dependencies, outputs and the deployed resources."""
    declared = {
        "size": {"type": "string", "defaultValue": "small"},
        "key": {"type": "securestring", "defaultValue": "s3cret"},
    }
    machine = resource(MACHINE, "vm", "net", tags={"size": "[parameters('size')]"})
    document = deploy(arm, machine, resource(NET, "net"), parameters=declared)
    network, vm = f"{SUBSCRIPTION}{NETWORK}/virtualNetworks/net", f"{SUBSCRIPTION}{VM}"
    assert document["outputResources"] == [{"id": network}, {"id": vm}]
    (dependency,) = document["dependencies"]
    assert (dependency["id"], dependency["resourceType"]) == (vm, MACHINE)
    assert [target["resourceName"] for target in dependency["dependsOn"]] == ["net"]
    assert document["parameters"] == {
        "size": {"type": "String", "value": "small"},
        "key": {"type": "SecureString"},
    }
    assert document["mode"] == "Incremental"
    assert document["outputs"] == {}
    valid = arm.post(
        f"{DEPLOYMENT}/validate", deployment(machine, resource(NET, "net"), parameters=declared)
    )
    again = valid.json["properties"]
    for key in ("parameters", "dependencies"):
        assert again[key] == document[key]


def test_operations(arm: ArmHarness) -> None:
    """One for each resource and one for the outputs, at both paths that clients use."""
    output = {"x": {"type": "int", "value": 1}}
    deploy(arm, resource(NET, "net"), resource(MACHINE, "vm", "net"), outputs=output)
    for path in (DEPLOYMENT, f"{RG}/deployments/main"):
        *resources, last = arm.get(f"{path}/operations").json["value"]
        targets = [entry["properties"]["targetResource"] for entry in resources]
        assert [target["resourceName"] for target in targets] == ["net", "vm"]
        assert targets[1]["id"] == f"{SUBSCRIPTION}{VM}"
        for entry in resources:
            assert entry["properties"]["provisioningOperation"] == "Create"
            assert entry["properties"]["statusCode"] == "Created"
        assert last["properties"]["provisioningOperation"] == "EvaluateDeploymentOutput"
    deploy(arm, resource(NET, "net"))
    (entry,) = arm.get(f"{DEPLOYMENT}/operations").json["value"]
    assert entry["properties"]["statusCode"] == "OK"


def test_the_operation_of_a_resource_that_failed(arm: ArmHarness) -> None:
    """The error of the resource is in its operation; resources before it stay."""
    document = deploy(arm, resource(NET, "net"), resource(MACHINE, "vm", "net", tags=5))
    assert document["error"]["code"] == "DeploymentFailed"
    assert "outputs" not in document
    first, second = (e["properties"] for e in arm.get(f"{DEPLOYMENT}/operations").json["value"])
    assert first["provisioningState"] == "Succeeded"
    assert (second["provisioningState"], second["statusCode"]) == ("Failed", "BadRequest")
    assert second["statusMessage"]["error"]["code"] == "InvalidParameter"
    assert arm.get(f"{NETWORK}/virtualNetworks/net").status == 200


def test_export_returns_the_template_without_secrets(arm: ArmHarness) -> None:
    """Default values of secure parameters and literal passwords are left out."""
    declared = {"key": {"type": "secureString", "defaultValue": "s3cret"}}
    profile = {"osProfile": {"adminPassword": "s3cret", "customData": "[parameters('key')]"}}
    deploy(arm, resource(MACHINE, "vm", properties=profile), parameters=declared)
    template = arm.post(f"{DEPLOYMENT}/exportTemplate").json["template"]
    assert template["parameters"] == {"key": {"type": "secureString"}}
    kept = template["resources"][0]["properties"]["osProfile"]
    assert kept == {"customData": "[parameters('key')]"}
    assert "s3cret" not in repr(vars(arm.store))
    missing = arm.post(f"{DEPLOYMENTS}/none/exportTemplate")
    assert refused(missing) == (404, "ResourceNotFound")


def test_a_template_that_is_too_long_to_store(arm: ArmHarness) -> None:
    """It is deployed, and cannot be exported."""
    document = deploy(arm, resource(NET, "net"), variables={"long": "x" * 600_000})
    assert document["provisioningState"] == "Succeeded"
    exported = arm.post(f"{DEPLOYMENT}/exportTemplate")
    assert refused(exported) == (409, "DeploymentTemplateNotAvailable")


def test_outputs_that_are_too_long_to_store(arm: ArmHarness) -> None:
    """The deployment fails, and says that the resources were deployed."""
    value = "[concat(variables('long'), variables('long'))]"
    output = {"x": {"type": "string", "value": value}}
    document = deploy(arm, resource(NET, "net"), variables={"long": "x" * 300_000}, outputs=output)
    assert document["provisioningState"] == "Failed"
    assert "too long to store" in document["error"]["message"]
    assert arm.get(f"{NETWORK}/virtualNetworks/net").status == 200


def test_a_deployment_cannot_be_canceled(arm: ArmHarness) -> None:
    """It has ended when its request ends."""
    deploy(arm)
    response = arm.post(f"{DEPLOYMENT}/cancel")
    assert refused(response) == (409, "OperationNotAllowed")
    assert "ended when its request ends" in response.error_message


def test_lists_can_be_filtered(arm: ArmHarness) -> None:
    """`az deployment group list --filter` selects by state; other filters are refused."""
    deploy(arm)
    arm.put(f"{DEPLOYMENTS}/bad", {})

    def names(**query: str) -> list[str]:
        listed = arm.get(DEPLOYMENTS, **query).json["value"]
        return [entry["name"] for entry in listed]

    assert names() == ["bad", "main"]
    assert names(**{"$filter": "provisioningState eq 'Failed'"}) == ["bad"]
    assert names(**{"$filter": "provisioningstate eq 'succeeded'"}) == ["main"]
    assert names(**{"$top": "1"}) == ["bad"]
    for query in ({"$filter": "name eq 'x'"}, {"$top": "0"}, {"$top": "x"}):
        assert arm.get(DEPLOYMENTS, **query).status == 400


def test_a_nested_deployment_that_fails(arm: ArmHarness) -> None:
    """Both deployments have failed, and the outer one has the error of the inner one."""
    document = deploy(arm, nested("inside", resource(MACHINE, "vm", tags=5)))
    (detail,) = document["error"]["details"]
    assert detail["target"].endswith("/deployments/inside")
    assert detail["details"][0]["code"] == "InvalidParameter"
    inner = arm.get(f"{DEPLOYMENTS}/inside").json["properties"]
    assert inner["provisioningState"] == "Failed"
    assert inner["error"]["details"][0]["target"] == f"{SUBSCRIPTION}{VM}"


def test_nested_templates_are_checked_first(arm: ArmHarness) -> None:
    """An unknown function of a nested template is refused before anything is written."""
    inside = resource(MACHINE, "vm", tags="[shout('x')]")
    step = nested("inside", inside, parameters={"p": {"type": "string"}})
    step["properties"]["parameters"] = {"p": {"value": "known"}}
    step["dependsOn"] = ["net"]
    error = deploy(arm, resource(NET, "net"), step)["error"]
    assert error["code"] == "InvalidTemplate"
    assert "the function 'shout' is not supported" in error["message"]
    assert arm.get(f"{NETWORK}/virtualNetworks/net").status == 404


def test_resources_of_nested_templates_are_counted(arm: ArmHarness) -> None:
    """All templates of a deployment may have 800 resources together."""
    many = resource(NET, "[concat('n', copyIndex())]", copy={"name": "n", "count": 500})
    response = arm.post(f"{DEPLOYMENT}/validate", deployment(nested("a", many), nested("b", many)))
    assert refused(response) == (400, "InvalidTemplate")
    assert "800 resources" in response.error_message


def test_references_read_what_a_client_would_read(arm: ArmHarness) -> None:
    """Outputs have the members that the service computes, and reads of other groups are allowed."""
    arm.group("other")
    arm.put(
        "/resourceGroups/other/providers/Microsoft.Compute/virtualMachines/old",
        {"location": "local"},
    )
    values = {
        "id": "[reference('vm', '2024-11-01', 'Full').id]",
        "state": "[reference('vm').provisioningState]",
        "other": f"[reference(resourceId('other', '{MACHINE}', 'old')).vmId]",
    }
    outputs = {name: {"type": "string", "value": value} for name, value in values.items()}
    document = deploy(arm, resource(MACHINE, "vm"), outputs=outputs)
    assert document["outputs"]["id"]["value"] == f"{SUBSCRIPTION}{VM}"
    assert document["outputs"]["state"]["value"] == "Succeeded"
    assert document["outputs"]["other"]["value"]


def test_a_tenant_deploys_only_into_its_group(arm: ArmHarness) -> None:
    """Each write and read of a deployment is authorized like a request of its own."""
    arm.group("other")
    arm.put(
        "/resourceGroups/other/providers/Microsoft.Compute/virtualMachines/old",
        {"location": "local"},
    )
    arm.principal = ANN
    value = f"[reference(resourceId('other', '{MACHINE}', 'old')).vmId]"
    document = deploy(arm, outputs={"x": {"type": "string", "value": value}})
    assert document["error"]["code"] == "AuthorizationFailed"
    lock = resource(NET, "net", scope="/subscriptions/x/resourceGroups/other")
    assert deploy(arm, lock)["provisioningState"] == "Failed"
    assert HOST not in str(document)
