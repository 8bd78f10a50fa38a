"""The unmodified Azure CLI and what it manages beside machines: tags, locks, disks, templates."""

import json
from pathlib import Path

import pytest

from tests.fixtures.programs import ROOT
from tests.real.tool_service import GROUP, NEW, VM, AzureCliService

pytestmark = [pytest.mark.usefixtures("az"), pytest.mark.spec("C2")]

FLEET = """
[cloud]
group = "rg"

[[machine]]
name = "vm"

[[scale_set]]
name = "web"
capacity = 2
"""
OF_VM = ("--resource-group", GROUP, "--vm-name", "vm")
SCRIPT = ("--name", "CustomScript", "--publisher", "Microsoft.Azure.Extensions", "--version", "2.1")


@pytest.mark.spec("C1")
def test_tags(tmp_path: Path) -> None:
    """`az tag create|update|list|delete`, `az tag list` and `az resource tag`."""
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        resource = ("--resource-id", service.path("virtualMachines/vm"))
        service.az_json("tag", "create", *resource, "--tags", "owner=ann")
        merge = ("--operation", "merge", "--tags", "stage=test")
        tags = service.az_json("tag", "update", *resource, *merge)["properties"]["tags"]
        assert tags == {"owner": "ann", "stage": "test"}
        assert service.az_json("vm", "show", *VM)["tags"] == tags
        assert service.az_json("tag", "list", *resource)["properties"]["tags"] == tags
        assert {entry["tagName"] for entry in service.az_json("tag", "list")} == set(tags)
        service.az_json("tag", "delete", *resource, "--yes")
        assert not service.az_json("vm", "show", *VM)["tags"]
        ids = ("--ids", service.path("virtualMachines/vm"))
        service.az_json("resource", "tag", *ids, "--tags", "a=b")
        assert service.az_json("resource", "show", *ids)["tags"] == {"a": "b"}
        subscription = ("--resource-id", service.path("").partition("/resourceGroups/")[0])
        service.az_json("tag", "create", *subscription, "--tags", "cost=42")
        tags = service.az_json("tag", "list", *subscription)["properties"]["tags"]
        assert tags == {"cost": "42"}


@pytest.mark.spec("C1")
def test_locks(tmp_path: Path) -> None:
    """`az lock`, `az group lock` and `az resource lock`; a locked machine is not deleted."""
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        keep = ("--name", "keep", "--resource-group", GROUP)
        service.az_json("lock", "create", *keep, "--lock-type", "CanNotDelete")
        assert "ScopeLocked" in service.az_error("vm", "delete", *VM, "--yes")
        assert [lock["name"] for lock in service.az_json("lock", "list")] == ["keep"]
        assert service.az_json("group", "lock", "show", *keep)["level"] == "CanNotDelete"
        service.az_json("lock", "delete", *keep)
        machine = ("--resource-type", "Microsoft.Compute/virtualMachines", "--resource", "vm")
        service.az_json("lock", "create", *keep, *machine, "--lock-type", "ReadOnly")
        assert "ScopeLocked" in service.az_error("vm", "restart", *VM)
        service.az_json("lock", "delete", *keep, *machine)
        assert service.az_json("lock", "list") == []


@pytest.mark.spec("C1")
def test_extensions_and_commands(tmp_path: Path) -> None:
    """`az vm extension`, `az vmss extension`, `az vm run-command` and `az vm reapply`."""
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        settings = ("--settings", '{"a": 1}', "--protected-settings", '{"word": "secret"}')
        extension = service.az_json("vm", "extension", "set", *OF_VM, *SCRIPT, *settings)
        assert extension["settings"] == {"a": 1}
        assert "secret" not in json.dumps(service.az_json("vm", "show", *VM))
        names = [e["name"] for e in service.az_json("vm", "extension", "list", *OF_VM)]
        assert names == ["CustomScript"]
        service.az_json("vm", "extension", "delete", *OF_VM, "--name", "CustomScript")
        web = ("--resource-group", GROUP, "--vmss-name", "web")
        service.az_json("vmss", "extension", "set", *web, *SCRIPT, *settings)
        assert len(service.az_json("vmss", "extension", "list", *web)) == 1
        run = ("--command-id", "RunShellScript", "--scripts", "true")
        assert "no access to the system" in service.az_error(
            "vm", "run-command", "invoke", *VM, *run
        )
        job = ("--run-command-name", "job")
        service.az_json("vm", "run-command", "create", *OF_VM, *job, "--script", "true")
        assert service.az_json("vm", "run-command", "list", *OF_VM)[0]["name"] == "job"
        service.az_json("vm", "reapply", *VM)


@pytest.mark.spec("C8")
def test_any_type(tmp_path: Path) -> None:
    """`az resource create|show|list|update|delete`, `az sshkey`, `az vm list-usage`."""
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        of_group = ("--resource-group", GROUP)
        kind = ("--resource-type", "Microsoft.Web/serverfarms")
        version = ("--api-version", "2024-04-01")  # the types of the provider are not known
        plan = (*of_group, *kind, *version, "--name", "plan")
        service.az_json("resource", "create", *plan, "--properties", '{"reserved": true}')
        assert service.az_json("resource", "show", *plan)["properties"]["reserved"] is True
        service.az_json("resource", "update", *plan, "--set", "tags.a=b")
        (entry,) = service.az_json("resource", "list", *kind)
        assert (entry["name"], entry["tags"]) == ("plan", {"a": "b"})
        service.az_json("resource", "delete", *plan)
        assert service.az_json("resource", "list", *kind) == []
        key = (*of_group, "--name", "key")
        service.az_json("sshkey", "create", *key, "--public-key", "ssh-ed25519 AAAA")
        assert service.az_json("sshkey", "show", *key)["publicKey"] == "ssh-ed25519 AAAA"
        assert service.az_json("vm", "list-usage", "--location", "local") == []
        assert service.az_json("group", "exists", "--name", GROUP) is True


DATA = ("--resource-group", GROUP, "--vm-name", "vm", "--name", "data")


def test_what_a_machine_uses(tmp_path: Path) -> None:
    """A new machine has an interface, addresses and a disk, which cannot be deleted before it."""
    with AzureCliService(tmp_path / "data") as service:
        service.az_json("group", "create", "--name", GROUP, "--location", "westus")
        shown = service.az_json("vm", "create", *VM, *NEW, "--public-ip-address-dns-name", "shop")
        assert shown["fqdns"] == "shop.westus.cloudapp.azure.com"
        (listed,) = service.az_json("vm", "list-ip-addresses", *VM)
        network = listed["virtualMachine"]["network"]
        assert network["privateIpAddresses"] == [shown["privateIpAddress"]] == ["10.0.0.4"]
        (public,) = network["publicIpAddresses"]
        assert public["ipAddress"] == shown["publicIpAddress"]
        system = service.az_json("vm", "show", *VM)["storageProfile"]["osDisk"]
        (disk,) = service.az_json("disk", "list", "--resource-group", GROUP)
        assert disk["id"] == system["managedDisk"]["id"]
        assert (disk["managedBy"], disk["diskState"]) == (shown["id"], "Attached")
        (nic,) = service.az_json("vm", "nic", "list", "--resource-group", GROUP, "--vm-name", "vm")
        assert "NicInUse" in service.az_error("network", "nic", "delete", "--ids", nic["id"])
        in_use = service.az_error("disk", "delete", "--ids", disk["id"], "--yes")
        assert "is attached to VM" in in_use

        service.az_json("vm", "disk", "attach", *DATA, "--new", "--size-gb", "8")
        data = service.az_json("disk", "show", "--resource-group", GROUP, "--name", "data")
        assert (data["managedBy"], data["diskSizeGB"]) == (shown["id"], 8)
        service.az_json("vm", "disk", "detach", *DATA)
        data = service.az_json("disk", "show", "--resource-group", GROUP, "--name", "data")
        assert (data.get("managedBy"), data["diskState"]) == (None, "Unattached")

        with service.time_running():
            service.az_json("vm", "delete", *VM, "--yes")
            service.az_json("network", "nic", "delete", "--ids", nic["id"])
            for id_ in (disk["id"], data["id"]):
                service.az_json("disk", "delete", "--ids", id_, "--yes")
            service.az_json("network", "public-ip", "delete", "--ids", public["id"])
        assert service.az_json("disk", "list", "--resource-group", GROUP) == []


GROUP_ONLY = """
[cloud]
group = "rg"
"""
TEMPLATE = (ROOT / "tests" / "real" / "tools" / "template.json").read_text("utf-8")
IN_GROUP = ("--resource-group", GROUP)
DEPLOYMENT = (*IN_GROUP, "--name", "fleet")


def options(path: Path, *parameters: str) -> tuple[str, ...]:
    """Return the options for the template file and its parameters."""
    given = ("adminPassword=S3cret-in-no-log", *parameters)
    return ("--template-file", str(path), "--parameters", *given)


def test_a_template_file(tmp_path: Path) -> None:
    """`az deployment group validate`, `create`, `show`, `export` and `operation`; no `what-if`."""
    file = tmp_path / "template.json"
    file.write_text(TEMPLATE)
    with AzureCliService(tmp_path / "data", fleet=GROUP_ONLY) as service:
        deployment = ("deployment", "group")
        done = service.az(*deployment, "what-if", *DEPLOYMENT, *options(file))
        assert done.returncode == 1
        assert "What-if is not offered" in done.stderr
        assert "Traceback" not in done.stderr
        valid = service.az_json(*deployment, "validate", *DEPLOYMENT, *options(file))
        assert valid["properties"]["provisioningState"] == "Succeeded"
        assert service.machines() == {}

        created = service.az_json(*deployment, "create", *DEPLOYMENT, *options(file))
        assert created["properties"]["provisioningState"] == "Succeeded"
        assert created["properties"]["outputs"]["names"]["value"] == ["vm0", "vm1"]
        assert len(created["properties"]["outputResources"]) == 5
        assert [*service.machines()] == ["vm0", "vm1"]
        parameters = created["properties"]["parameters"]
        assert parameters["adminPassword"] == {"type": "SecureString"}
        assert parameters["count"] == {"type": "Int", "value": 2}

        operations = service.az_json("deployment", "operation", "group", "list", *DEPLOYMENT)
        names = [
            operation["properties"]["targetResource"]["resourceName"]
            for operation in operations
            if operation["properties"].get("targetResource")
        ]
        assert names == ["net", "nic0", "nic1", "vm0", "vm1"]
        exported = service.az_json(*deployment, "export", *DEPLOYMENT)
        assert exported["resources"][0]["name"] == "net"
        assert "S3cret" not in json.dumps(exported)
        assert [entry["name"] for entry in service.az_json(*deployment, "list", *IN_GROUP)] == [
            "fleet"
        ]

        assert "Error" in service.az_error(*deployment, "cancel", *DEPLOYMENT).title()
        service.az_json(*deployment, "delete", *DEPLOYMENT)
        assert service.az_json(*deployment, "list", *IN_GROUP) == []
