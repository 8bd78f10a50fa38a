"""Templates as the Azure CLI sends them."""

import pytest

from fairwarning.arm.templates.template import ReferenceNeeded
from tests.arm.evaluation import COMPUTE, NETWORK, Json, evaluate, net

SCALE_SET: Json = {
    "$schema": "https://example.org/deploymentTemplate.json#",
    "contentVersion": "1.0.0.0",
    "parameters": {"adminPassword": {"type": "securestring", "metadata": {"description": "x"}}},
    "variables": {},
    "resources": [
        {
            "type": "Microsoft.Compute/virtualMachineScaleSets",
            "name": "web",
            "apiVersion": "2026-04-01",
            "location": "westeurope",
            "tags": {"team": "shop"},
            "sku": {"name": "Standard_B1s", "capacity": 2},
            "zones": ["1"],
            "dependsOn": [
                "Microsoft.Network/virtualNetworks/webVNET",
                "Microsoft.Network/loadBalancers/webLB",
                "Microsoft.Network/networkSecurityGroups/webNSG",
            ],
            "properties": {
                "singlePlacementGroup": None,
                "virtualMachineProfile": {
                    "osProfile": {"adminPassword": "[parameters('adminPassword')]"},
                    "networkSecurityGroup": {
                        "id": "[resourceId('Microsoft.Network/networkSecurityGroups', 'webNSG')]"
                    },
                },
            },
        },
        {
            "type": "Microsoft.Network/virtualNetworks",
            "name": "webVNET",
            "apiVersion": "2022-01-01",
            "location": "westeurope",
            "dependsOn": [],
            "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}},
        },
        {
            "type": "Microsoft.Network/loadBalancers",
            "name": "webLB",
            "apiVersion": "2022-01-01",
            "dependsOn": [
                "Microsoft.Network/virtualNetworks/webVNET",
                "Microsoft.Network/publicIpAddresses/webLBPublicIP",
            ],
            "properties": {},
        },
        {
            "type": "Microsoft.Network/publicIPAddresses",
            "name": "webLBPublicIP",
            "apiVersion": "2022-01-01",
            "dependsOn": [],
            "properties": {},
        },
        {
            "type": "Microsoft.Network/networkSecurityGroups",
            "name": "webNSG",
            "apiVersion": "2015-06-15",
            "dependsOn": [],
            "properties": {},
        },
        {
            "type": "Microsoft.Network/loadBalancers/inboundNatRules",
            "name": "webLB/NatRule",
            "apiVersion": "2022-01-01",
            "dependsOn": ["[concat('Microsoft.Network/loadBalancers/', 'webLB')]"],
            "properties": {
                "frontendIPConfiguration": {
                    "id": "[concat(resourceId('Microsoft.Network/loadBalancers', 'webLB'), "
                    "'/frontendIPConfigurations/', 'front')]"
                },
                "frontendPortRangeStart": "50000",
            },
        },
    ],
    "outputs": {
        "VMSS": {
            "type": "object",
            "value": "[reference(resourceId('Microsoft.Compute/virtualMachineScaleSets', 'web'), "
            "providers('Microsoft.Compute', 'virtualMachineScaleSets').apiVersions[0])]",
        }
    },
}


def test_a_scale_set_as_the_azure_cli_sends_it() -> None:
    """Networks come before the scale set that depends on them; dependsOn is case-insensitive."""
    template = evaluate(SCALE_SET, {"adminPassword": "[hunter2]"})
    steps = {step.name: step for step in template.resources}
    assert [*steps] == ["webVNET", "webLBPublicIP", "webLB", "webNSG", "web", "webLB/NatRule"]
    rule = steps["webLB/NatRule"]
    assert rule.id == f"{NETWORK}/loadBalancers/webLB/inboundNatRules/NatRule"
    assert (rule.type, rule.version) == (
        "Microsoft.Network/loadBalancers/inboundNatRules",
        "2022-01-01",
    )
    front = f"{NETWORK}/loadBalancers/webLB/frontendIPConfigurations/front"
    assert template.resource(rule, {}) == {
        "properties": {
            "frontendIPConfiguration": {"id": front},
            "frontendPortRangeStart": "50000",
        }
    }
    assert template.resource(steps["web"], {}) == {
        "location": "westeurope",
        "tags": {"team": "shop"},
        "sku": {"name": "Standard_B1s", "capacity": 2},
        "zones": ["1"],
        "properties": {
            "singlePlacementGroup": None,
            "virtualMachineProfile": {
                "osProfile": {"adminPassword": "[hunter2]"},  # a value is never an expression
                "networkSecurityGroup": {"id": f"{NETWORK}/networkSecurityGroups/webNSG"},
            },
        },
    }
    scale_set = f"{COMPUTE}/virtualMachineScaleSets/web".lower()
    with pytest.raises(ReferenceNeeded) as reference:
        template.outputs({})
    assert reference.value.id == scale_set
    known = {scale_set: {"id": "x", "properties": {"provisioningState": "Succeeded"}}}
    value = {"provisioningState": "Succeeded"}
    assert template.outputs(known) == {"VMSS": {"type": "object", "value": value}}


def test_a_machine_as_the_azure_cli_sends_it() -> None:
    """The role assignment is an extension resource: its type is part of the machine's type."""
    vm = f"{COMPUTE}/virtualMachines/gate"
    resources = [
        {
            "type": "Microsoft.Compute/virtualMachines/providers/roleAssignments",
            "name": "gate/Microsoft.Authorization/7",
            "apiVersion": "2015-07-01",
            "dependsOn": ["Microsoft.Compute/virtualMachines/gate"],
            "properties": {
                "principalId": f"[reference('{vm}', '2019-07-01', 'Full').identity.principalId]"
            },
        },
        {
            "type": "Microsoft.Compute/virtualMachines",
            "name": "gate",
            "apiVersion": "2026-04-01",
            "dependsOn": ["Microsoft.Network/networkInterfaces/gateVMNic"],
            "properties": {"priority": "Spot"},
            "identity": {"type": "SystemAssigned"},
        },
        {
            "type": "Microsoft.Network/networkInterfaces",
            "name": "gateVMNic",
            "apiVersion": "2022-01-01",
            "dependsOn": [
                "Microsoft.Network/virtualNetworks/gateVNET",
                "Microsoft.Network/publicIpAddresses/gatePublicIP",
            ],
        },
        net("gateVNET"),
        {
            "type": "Microsoft.Network/publicIPAddresses",
            "name": "gatePublicIP",
            "apiVersion": "2022-01-01",
        },
    ]
    template = evaluate({"resources": resources, "outputs": {}})
    *networks, machine, role = template.resources
    assert [step.name for step in networks] == ["gateVNET", "gatePublicIP", "gateVMNic"]
    assert role.id == f"{vm}/providers/Microsoft.Authorization/roleAssignments/7"
    assert template.resource(machine, {})["identity"] == {"type": "SystemAssigned"}
    with pytest.raises(ReferenceNeeded) as reference:
        template.resource(role, {})
    known = {reference.value.id: {"identity": {"principalId": "me"}, "properties": {}}}
    assert template.resource(role, known) == {"properties": {"principalId": "me"}}
