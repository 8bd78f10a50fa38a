"""Manages machines with Apache Libcloud's driver for Azure. The argument is the step.

Runs in an environment of its own (`make tools`), which has neither this project nor its tests.
"""

import json
import os
import sys
from typing import Any

from libcloud.compute.base import NodeAuthPassword, NodeLocation, NodeSize  # type: ignore[import-not-found]  # (in its own environment)
from libcloud.compute.drivers.azure_arm import AzureImage, AzureNodeDriver  # type: ignore[import-not-found]  # (likewise)

GROUP = "rg"
POLL_SECONDS = 1


def log_in() -> Any:  # noqa: ANN401  (Libcloud has no types)
    """Return the driver. It knows hosts only, so the service listens on port 443."""
    arm = os.environ["ARM_ENDPOINT"]
    cloud = {
        "resourceManagerEndpointUrl": arm,
        "activeDirectoryEndpointUrl": arm,
        "activeDirectoryResourceId": arm,
        "storageEndpointSuffix": ".storage.invalid",
    }
    return AzureNodeDriver(
        os.environ["AZURE_TENANT_ID"],
        os.environ["AZURE_SUBSCRIPTION_ID"],
        os.environ["AZURE_CLIENT_ID"],
        os.environ["AZURE_CLIENT_SECRET"],
        cloud_environment=cloud,
    )


def create(driver: Any) -> None:  # noqa: ANN401
    """Create a node in the first subnet of the network."""
    location = NodeLocation("westus", "West US", "US", driver)
    sizes = {size.id: size for size in driver.list_sizes(location)}
    size: NodeSize = sizes["Standard_B1s"]
    image = AzureImage("latest", "12", "debian-12", "Debian", "westus", driver)
    (network,) = driver.ex_list_networks()
    (subnet,) = driver.ex_list_subnets(network)
    public = driver.ex_create_public_ip("ip", GROUP, location)
    nic = driver.ex_create_network_interface("nic", subnet, GROUP, location, public)
    driver.create_node(
        "vm",
        size,
        image,
        NodeAuthPassword("Not-a-secret-1"),
        ex_resource_group=GROUP,
        location=location,
        ex_nic=nic,
        ex_tags={"tier": "front"},
        ex_use_managed_disks=True,
    )


def shown(driver: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Return what Libcloud shows of each node."""
    return [
        {
            "name": node.name,
            "state": str(node.state),
            "private": node.private_ips,
            "public": node.public_ips,
            "tags": node.extra["tags"],
        }
        for node in driver.list_nodes()
    ]


def main() -> None:
    """Run one step and print its result as JSON."""
    driver = log_in()
    step = sys.argv[1]
    result: object = None
    if step == "create":
        create(driver)
    elif step == "list":
        result = shown(driver)
    else:
        (node,) = driver.list_nodes()
        result = {
            "reboot": lambda: driver.reboot_node(node),
            "stop": lambda: driver.stop_node(node),
            "start": lambda: driver.start_node(node),
            "destroy": lambda: driver.destroy_node(node, ex_poll_wait=POLL_SECONDS),
        }[step]()
    sys.stdout.write(json.dumps(result))


main()
