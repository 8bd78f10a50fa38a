"""Templates as the Azure CLI sends them."""

import pytest

from fairwarning.arm.templates.template import ReferenceNeeded
from tests.arm.evaluation import COMPUTE, evaluate, names
from tests.arm.templates import resource


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
