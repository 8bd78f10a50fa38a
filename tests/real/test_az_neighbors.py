"""The unmodified Azure CLI and what it manages beside machines: tags, locks, stored types."""

import json
from pathlib import Path

import pytest

from tests.real.azure_cli import GROUP, AzureCliService

FLEET = """
[cloud]
group = "rg"

[[machine]]
name = "vm"

[[scale_set]]
name = "web"
capacity = 2
"""
VM = ("--resource-group", GROUP, "--name", "vm")
OF_VM = ("--resource-group", GROUP, "--vm-name", "vm")
SCRIPT = ("--name", "CustomScript", "--publisher", "Microsoft.Azure.Extensions", "--version", "2.1")


@pytest.mark.spec("C2", "C1")
@pytest.mark.usefixtures("az")
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


@pytest.mark.spec("C2", "C1")
@pytest.mark.usefixtures("az")
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


@pytest.mark.spec("C2", "C1")
@pytest.mark.usefixtures("az")
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


@pytest.mark.spec("C2", "C8")
@pytest.mark.usefixtures("az")
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
