"""The unmodified Azure CLI and what it manages beside machines: tags, locks, extensions, logs."""

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
        output = service.az_json("vm", "run-command", "invoke", *VM, *run)
        assert "Nothing was run" in output["value"][0]["message"]
        job = ("--run-command-name", "job")
        service.az_json("vm", "run-command", "create", *OF_VM, *job, "--script", "true")
        assert service.az_json("vm", "run-command", "list", *OF_VM)[0]["name"] == "job"
        service.az_json("vm", "reapply", *VM)


@pytest.mark.spec("C2", "C1")
@pytest.mark.usefixtures("az")
def test_logs_and_lists(tmp_path: Path) -> None:
    """`az monitor activity-log list`, `az sshkey create`, `az vm list-usage`, `az group exists`."""
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        key = ("--resource-group", GROUP, "--name", "key", "--location", "local")
        assert service.az_json("sshkey", "create", *key)["publicKey"].startswith("ssh-rsa ")
        service.az_json(
            "resource", "tag", "--ids", service.path("virtualMachines/vm"), "--tags", "a=b"
        )
        when = ("--start-time", "2000-01-01T00:00:00Z", "--end-time", "2100-01-01T00:00:00Z")
        of_group = ("--resource-group", GROUP)
        log = service.az_json("monitor", "activity-log", "list", *of_group, *when)
        operations = {record["operationName"]["value"] for record in log}
        assert "Microsoft.Compute/virtualMachines/write" in operations
        assert "Microsoft.Compute/sshPublicKeys/write" in operations
        assert service.az_json("vm", "list-usage", "--location", "local") == []
        assert service.az_json("group", "exists", "--name", GROUP) is True
        query = {"query": "Resources | where type has 'virtualmachines' | summarize count()"}
        url = "/providers/Microsoft.ResourceGraph/resources?api-version=2022-10-01"
        body = ("--body", json.dumps(query))
        result = service.az_json("rest", "--method", "post", "--url", url, *body)
        assert result["data"] == [{"count_": 1}]
