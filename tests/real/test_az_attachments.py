"""The unmodified Azure CLI, and the interfaces, addresses and disks of a machine."""

from pathlib import Path

import pytest

from tests.real.azure_cli import GROUP, NEW, AzureCliService

VM = ("--resource-group", GROUP, "--name", "vm")
DATA = ("--resource-group", GROUP, "--vm-name", "vm", "--name", "data")


@pytest.mark.spec("C2", "C6")
@pytest.mark.usefixtures("az")
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
