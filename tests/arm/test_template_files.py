"""Template files like the public quickstarts: each deploys, reads back and deploys again.

They are sent as the Azure CLI sends a file: the text itself, after a key without quotes.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.arm.templates import send_text
from tests.fixtures.arm import HOST, SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C1", "C2")

Json = dict[str, Any]
FILES = Path(__file__).parent / "template_files"
DEPLOYMENTS = "/resourceGroups/rg/providers/Microsoft.Resources/deployments"
PROVIDERS = f"{SUBSCRIPTION}/resourceGroups/rg/providers"
DEPLOYMENT = f"{DEPLOYMENTS}/main"
SECRET = "P4ssword-in-no-document"

OUTPUTS: Mapping[str, Json] = {
    "availability_set": {"domains": 2},
    "environments": {
        "count": 1,
        "role": True,
        "storage": "https://x.blob.core.windows.net",
        "versions": True,
    },
    "extension": {"kind": "CustomScript"},
    "lock": {},
    "managed_disks": {"size": 128},
    "nested_inner": {"vm": "module-vm", "own": "machine-module"},
    "nested_outer": {"tag": "RED"},
    "placement_group": {"decoded": True, "type": "ssh-rsa"},
    "scale_set": {"capacity": 2},
    "scale_set_autoscale": {},
    "scale_set_flexible": {"zones": ["1", "2", "3"]},
    "serial_batches": {"last": "node04"},
    "spot_machine": {"priority": "Spot"},
    "subnets_by_loop": {
        "prefixes": ["10.8.0.0/24", "10.8.1.0/24", "10.8.2.0/24"],
        "gateway": "10.8.2.1",
        "host": "10.8.0.4",
    },
    "symbolic_loops": {"hosts": ["db-1", "db-2"], "zones": ["1", "2"]},
    "symbolic_names": {
        "nicId": f"{PROVIDERS}/Microsoft.Network/networkInterfaces/symbol-nic",
        "none": None,
    },
    "tags_and_times": {"keys": "cost,team,until", "run": 36, "future": True},
    "user_functions": {"name": "web007"},
    "vm_data_disks": {"luns": [0, 1, 2]},
    "vm_simple": {},  # has names that depend on the group: see below
    "vms_in_a_loop": {},
}
"""The values of the outputs of each template."""
MACHINES: Mapping[str, list[str]] = {
    "availability_set": ["blue", "green"],
    "environments": ["t-0"],
    "nested_inner": ["module-vm"],
    "nested_outer": ["after-teams"],
    "scale_set": ["pool_0", "pool_1"],
    "serial_batches": ["node00", "node01", "node02", "node03", "node04"],
    "symbolic_loops": ["db-1", "db-2"],
    "vms_in_a_loop": ["web1", "web2", "web3"],
}
"""The machines that some templates create."""


def read(name: str) -> str:
    """Return the text of a template file."""
    return (FILES / f"{name}.json").read_text("utf-8")


def parameters_of(name: str) -> Json:
    """Return the parameters without a default value."""
    return {"adminPasswordOrKey": {"value": SECRET}} if name == "vm_simple" else {}


def deploy(arm: ArmHarness, name: str) -> Json:
    """Deploy a template file, and return the properties of the deployment."""
    response = send_text(arm, "PUT", DEPLOYMENT, read(name), parameters_of(name))
    assert response.status == 201, response.body
    assert arm.ended(response) == {"status": "Succeeded"}
    properties: Json = arm.get(DEPLOYMENT).json["properties"]
    return properties


def test_every_file_is_tested() -> None:
    """A new file needs an entry."""
    assert {path.stem for path in FILES.glob("*.json")} == set(OUTPUTS)


@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_a_template_file(arm: ArmHarness, name: str) -> None:
    """It deploys, its resources can be read, its document is complete, and it deploys again."""
    properties = deploy(arm, name)
    outputs = {key: output["value"] for key, output in properties["outputs"].items()}
    assert outputs | OUTPUTS[name] == outputs
    deployed = [resource["id"] for resource in properties["outputResources"]]
    for path in deployed:
        assert arm.get(f"/{path}").json["id"] == path
    if name in MACHINES:
        assert machine_names(arm) == MACHINES[name]
    check_operations(arm, deployed)
    assert HOST not in str(properties["dependencies"])
    exported = json.dumps(arm.post(f"{DEPLOYMENT}/exportTemplate").json["template"])
    again = send_text(arm, "POST", f"{DEPLOYMENT}/validate", exported, parameters_of(name))
    if name != "extension":  # without the default value of its secure parameter
        assert again.status == 200, again.body
    before = arm.get("/resourceGroups/rg/resources").json
    assert {**deploy(arm, name)["outputs"], "run": 0} == {**properties["outputs"], "run": 0}
    assert arm.get("/resourceGroups/rg/resources").json == before
    assert SECRET not in repr(vars(arm.store))


def check_operations(arm: ArmHarness, deployed: list[str]) -> None:
    """Assert that each resource has a successful operation."""
    operations = [
        entry["properties"] for entry in arm.get(f"{DEPLOYMENT}/operations").json["value"]
    ]
    targets = [entry["targetResource"]["id"] for entry in operations if "targetResource" in entry]
    assert targets == deployed
    assert {entry["provisioningState"] for entry in operations} == {"Succeeded"}


def machine_names(arm: ArmHarness) -> list[str]:
    """Return the names of all machines of the group."""
    compute = "/resourceGroups/rg/providers/Microsoft.Compute"
    names = [entry["name"] for entry in arm.get(f"{compute}/virtualMachines").json["value"]]
    for scale_set in arm.get(f"{compute}/virtualMachineScaleSets").json["value"]:
        path = f"{compute}/virtualMachineScaleSets/{scale_set['name']}/virtualMachines"
        names += [entry["name"] for entry in arm.get(path).json["value"]]
    return sorted(set(names))


def test_names_of_a_simple_machine(arm: ArmHarness) -> None:
    """Its fully qualified name has the label that the template computes; its address is real."""
    outputs = deploy(arm, "vm_simple")["outputs"]
    assert outputs["fqdn"]["value"].startswith("simple-")
    assert outputs["address"]["value"].startswith("10.1.0.")
    addresses = deploy(arm, "vms_in_a_loop")["outputs"]["addresses"]["value"]
    assert len(set(addresses)) == 3
    assert all(address.startswith("10.2.3.") for address in addresses)
    assert SECRET not in str(arm.get(DEPLOYMENT).json)


@pytest.mark.parametrize(
    ("name", "parameters", "machines"),
    [
        ("environments", {"environment": "production"}, ["p-0", "p-1", "p-2", "spare"]),
        ("vms_in_a_loop", {"count": 0}, []),
        ("scale_set", {"instanceCount": 3, "vmssName": "Other"}, ["Other_0", "Other_1", "Other_2"]),
    ],
)
def test_parameters_of_a_template_file(
    arm: ArmHarness, name: str, parameters: Json, machines: list[str]
) -> None:
    """Parameters of a parameter file change what is deployed."""
    values = {key: {"value": value} for key, value in parameters.items()}
    response = send_text(arm, "PUT", DEPLOYMENT, read(name), values)
    assert arm.ended(response) == {"status": "Succeeded"}
    assert machine_names(arm) == machines
