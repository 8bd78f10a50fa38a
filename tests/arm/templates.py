"""The template of `az vmss create`, and parts for other templates."""

import threading
from typing import Any

import pytest

from fairwarning.arm.templates.template import Template
from tests.fixtures.arm import default_version
from tests.fixtures.waiting import LIMIT_SECONDS

Json = dict[str, Any]


def resource(kind: str, name: str, *after: str, **more: object) -> Json:
    """Return a resource of a template."""
    return {
        "type": kind,
        "name": name,
        "apiVersion": default_version(f"/providers/{kind}/name"),
        "location": "local",
        "dependsOn": list(after),
        **more,
    }


def hold_deployments(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let the computation of every template wait for the event that is returned."""
    released, outputs = threading.Event(), Template.outputs

    def wait(*arguments: Any) -> Json:  # noqa: ANN401  (as the method)
        assert released.wait(LIMIT_SECONDS)
        return outputs(*arguments)

    monkeypatch.setattr(Template, "outputs", wait)
    return released


SUBNETS = [{"name": "webSubnet", "properties": {"addressPrefix": "10.0.0.0/24"}}]
MODEL = {
    "osProfile": {
        "computerNamePrefix": "web",
        "adminUsername": "me",
        "adminPassword": "[parameters('adminPassword')]",
    },
    "scheduledEventsProfile": {
        "terminateNotificationProfile": {"enable": "true", "notBeforeTimeout": "PT9M"}
    },
    "networkProfile": {
        "networkInterfaceConfigurations": [
            {
                "name": "nic",
                "properties": {
                    "primary": "true",
                    "networkSecurityGroup": {
                        "id": "[resourceId('Microsoft.Network/networkSecurityGroups', 'webNSG')]"
                    },
                },
            }
        ]
    },
}
TEMPLATE: Json = {
    "$schema": "https://schema.management.azure.com/schemas/2015-01-01/deploymentTemplate.json#",
    "contentVersion": "1.0.0.0",
    "parameters": {"adminPassword": {"type": "securestring"}},
    "variables": {},
    "resources": [
        resource(
            "Microsoft.Compute/virtualMachineScaleSets",
            "web",
            "Microsoft.Network/virtualNetworks/webVNET",
            "Microsoft.Network/loadBalancers/webLB",
            "Microsoft.Network/networkSecurityGroups/webNSG",
            sku={"name": "Standard_DS1_v2", "capacity": 2},
            properties={
                "orchestrationMode": "Uniform",
                "singlePlacementGroup": None,
                "upgradePolicy": {"mode": "manual"},
                "virtualMachineProfile": MODEL,
            },
        ),
        resource(
            "Microsoft.Network/virtualNetworks",
            "webVNET",
            properties={"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": SUBNETS},
        ),
        resource("Microsoft.Network/publicIPAddresses", "webIP", sku={"name": "Standard"}),
        resource(
            "Microsoft.Network/loadBalancers",
            "webLB",
            "Microsoft.Network/publicIpAddresses/webIP",
            properties={"frontendIPConfigurations": [{"name": "front", "properties": {}}]},
        ),
        resource("Microsoft.Network/networkSecurityGroups", "webNSG"),
        resource(
            "Microsoft.Network/loadBalancers/inboundNatRules",
            "webLB/NatRule",
            "[concat('Microsoft.Network/loadBalancers/', 'webLB')]",
            properties={"frontendPortRangeStart": "50000", "backendPort": 22},
        ),
    ],
    "outputs": {
        "VMSS": {
            "type": "object",
            "value": (
                "[reference(resourceId('Microsoft.Compute/virtualMachineScaleSets', 'web'),"
                "providers('Microsoft.Compute', 'virtualMachineScaleSets').apiVersions[0])]"
            ),
        }
    },
}
