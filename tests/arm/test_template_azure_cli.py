"""Templates as the Azure CLI sends them."""

import pytest

from fairwarning.arm.templates.template import ReferenceNeeded
from tests.arm.evaluation import COMPUTE, NETWORK, evaluate, names
from tests.arm.templates import TEMPLATE, resource


def test_a_scale_set_as_the_azure_cli_sends_it() -> None:
    """Networks come before the scale set that depends on them; dependsOn is case-insensitive."""
    template = evaluate(TEMPLATE, {"adminPassword": "[hunter2]"})
    steps = {step.name: step for step in template.resources}
    assert [*steps] == ["webVNET", "webIP", "webLB", "webNSG", "web", "webLB/NatRule"]
    rule = steps["webLB/NatRule"]
    assert rule.id == f"{NETWORK}/loadBalancers/webLB/inboundNatRules/NatRule"
    assert (rule.type, rule.version) == (
        "Microsoft.Network/loadBalancers/inboundNatRules",
        TEMPLATE["resources"][5]["apiVersion"],
    )
    sent = TEMPLATE["resources"][5]
    assert template.resource(rule, {}) == {
        "location": sent["location"], "properties": sent["properties"]
    }  # fmt: skip
    profile = template.resource(steps["web"], {})["properties"]["virtualMachineProfile"]
    assert profile["osProfile"]["adminPassword"] == "[hunter2]"  # a value is never an expression
    (interface,) = profile["networkProfile"]["networkInterfaceConfigurations"]
    group = {"id": f"{NETWORK}/networkSecurityGroups/webNSG"}
    assert interface["properties"] == {"primary": "true", "networkSecurityGroup": group}
    scale_set = f"{COMPUTE}/virtualMachineScaleSets/web".lower()
    with pytest.raises(ReferenceNeeded) as reference:
        template.outputs({})
    assert reference.value.id == scale_set
    known = {scale_set: {"id": "x", "properties": {"provisioningState": "Succeeded"}}}
    value = {"provisioningState": "Succeeded"}
    assert template.outputs(known) == {"VMSS": {"type": "object", "value": value}}


def test_a_machine_as_the_azure_cli_sends_it() -> None:
    """The role assignment is an extension resource: its type is part of the machine's type."""
    machine = "Microsoft.Compute/virtualMachines"
    path = f"{COMPUTE}/virtualMachines/gate"
    principal = f"[reference('{path}', '2019-07-01', 'Full').identity.principalId]"
    resources = [
        resource(
            f"{machine}/providers/roleAssignments",
            "gate/Microsoft.Authorization/7",
            f"{machine}/gate",
            properties={"principalId": principal},
        ),
        resource(
            machine,
            "gate",
            "Microsoft.Network/networkInterfaces/gateVMNic",
            identity={"type": "SystemAssigned"},
        ),
        resource(
            "Microsoft.Network/networkInterfaces",
            "gateVMNic",
            "Microsoft.Network/publicIpAddresses/gatePublicIP",
        ),
        resource("Microsoft.Network/publicIPAddresses", "gatePublicIP"),
    ]
    template = evaluate({"resources": resources, "outputs": {}})
    assert names(template)[:3] == ["gatePublicIP", "gateVMNic", "gate"]
    role = template.resources[3]
    assert role.id == f"{path}/providers/Microsoft.Authorization/roleAssignments/7"
    assert template.resource(template.resources[2], {})["identity"] == {"type": "SystemAssigned"}
    with pytest.raises(ReferenceNeeded) as reference:
        template.resource(role, {})
    known = {reference.value.id: {"identity": {"principalId": "me"}, "properties": {}}}
    assert template.resource(role, known)["properties"] == {"principalId": "me"}
