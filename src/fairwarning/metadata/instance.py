"""Instance metadata (M19). Pure: `validation` checks headers and api-versions (M3, M4).

Every leaf is a string; an unknown value is the empty string.
"""

import json
from collections.abc import Sequence

from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import Machine, Priority, ScaleSet, Scope, ScopeKind, guid
from fairwarning.metadata.answers import JSON
from fairwarning.metadata.interfaces import NetworkInterface
from fairwarning.service.config.settings import CloudSettings
from fairwarning.service.resources import vm_id

Tree = dict[str, "Tree"] | list["Tree"] | str

VERSIONS: tuple[str, ...] = (
    "2017-03-01", "2017-04-02", "2017-08-01", "2017-10-01", "2017-12-01", "2018-02-01",
    "2018-04-02", "2018-10-01", "2019-02-01", "2019-03-11", "2019-04-30", "2019-06-01",
    "2019-06-04", "2019-08-01", "2019-08-15", "2019-11-01", "2020-06-01", "2020-07-15",
    "2020-09-01", "2020-10-01", "2020-12-01", "2021-01-01", "2021-02-01", "2021-03-01",
    "2021-05-01", "2021-08-01", "2021-10-01", "2021-11-01", "2021-11-15", "2021-12-13",
    "2023-07-01", "2023-11-15", "2024-03-15", "2024-07-17", "2025-04-07",
)  # fmt: skip
"""The api-versions of instance metadata, oldest first."""

NEWEST: tuple[str, ...] = VERSIONS[:-4:-1]
"""The versions that an error suggests for an unknown one, newest first (M3)."""

_TEXT = "text/plain; charset=utf-8"

# The version that introduced each field of `compute`, in output order.
_SINCE: dict[str, str] = {
    "azEnvironment": "2018-10-01",
    "evictionPolicy": "2020-12-01",
    "location": "2017-04-02",
    "name": "2017-04-02",
    "offer": "2017-04-02",
    "osProfile": "2020-07-15",
    "osType": "2017-04-02",
    "physicalZone": "2023-11-15",
    "placementGroupId": "2017-08-01",
    "plan": "2018-04-02",
    "platformFaultDomain": "2017-04-02",
    "platformUpdateDomain": "2017-04-02",
    "priority": "2020-12-01",
    "provider": "2018-10-01",
    "publicKeys": "2018-04-02",
    "publisher": "2017-04-02",
    "resourceGroupName": "2017-08-01",
    "resourceId": "2019-03-11",
    "sku": "2017-04-02",
    "subscriptionId": "2017-08-01",
    "tags": "2017-08-01",
    "tagsList": "2019-06-04",
    "version": "2017-04-02",
    "virtualMachineScaleSet": "2021-03-01",
    "vmId": "2017-04-02",
    "vmScaleSetName": "2017-12-01",
    "vmSize": "2017-04-02",
    "zone": "2017-12-01",
}

# The values that all machines share.
_FIXED: dict[str, Tree] = {
    "azEnvironment": "AzurePublicCloud",
    "offer": "",
    "physicalZone": "",
    "plan": {"name": "", "product": "", "publisher": ""},
    "provider": "Microsoft.Compute",
    "publicKeys": [],
    "publisher": "",
    "sku": "",
    "version": "",
}


def versions_body() -> bytes:
    """Return the body of GET /metadata/versions: compact JSON, oldest version first."""
    return _compact({"apiVersions": list(VERSIONS)})


def shows_interface(path: Sequence[str]) -> bool:
    """Whether the answer for `path` below /metadata/instance depends on the network interface."""
    return not path or path[0] == "network"


def render(
    cloud: CloudSettings,
    scope: Scope,
    machine: Machine,
    version: str,
    path: Sequence[str],
    *,
    text: bool,
    scale_set: ScaleSet | None = None,
    interface: NetworkInterface | None = None,
) -> tuple[bytes, str]:
    """Return the body and content type for `path` below /metadata/instance.

    `scale_set` is the owner of the scope, if it has one.
    `version` must be in VERSIONS. `path` is case-sensitive; numbers index arrays. A leaf is served
    as text only. As text, a node is a list of its names, one per line, with a slash after each
    name that has children. A path that `shows_interface` needs the interface.
    """
    compute = _compute(cloud, scope, machine, scale_set, version)
    node: Tree = {"compute": compute}
    if interface is not None:
        node = {"compute": compute, "network": _network(interface)}
    for depth, segment in enumerate(path):
        children = _children(node)
        if segment not in children:
            parent = "/".join(("instance", *path[:depth]))
            raise NotFound("UnknownPath", f"there is no {segment[:60]!r} in {parent}")
        node = children[segment]
    if text:
        return _as_text(node).encode(), _TEXT
    if isinstance(node, str):
        place = "/".join(("instance", *path))
        raise Refused("TextOnly", f"{place} is a single value; request it with format=text")
    return _compact(node), JSON


def _compact(tree: Tree) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()


def _as_text(node: Tree) -> str:
    if isinstance(node, str):
        return node
    children = _children(node)
    return "\n".join(
        name if isinstance(child, str) else f"{name}/" for name, child in children.items()
    )


def _children(node: Tree) -> dict[str, Tree]:
    """Return the children of a node by path segment."""
    if isinstance(node, str):
        return {}
    if isinstance(node, list):
        return {str(index): child for index, child in enumerate(node)}
    return node


def _compute(
    cloud: CloudSettings, scope: Scope, machine: Machine, scale_set: ScaleSet | None, version: str
) -> Tree:
    tags = sorted(machine.tags.items())
    spot = machine.priority is Priority.SPOT
    fields: dict[str, Tree] = {
        **_FIXED,
        **_identity(cloud, scope, machine, scale_set),
        "evictionPolicy": machine.eviction.value if spot else "",
        "location": cloud.location,
        "osType": "Windows" if machine.windows else "Linux",
        "osProfile": {
            "adminUsername": "",
            "computerName": machine.host_name or machine.name,
            "disablePasswordAuthentication": "",
        },
        "platformFaultDomain": str(machine.fault_domain),
        "platformUpdateDomain": str(machine.update_domain),
        # Azure leaves this empty for most Regular machines; an explicit value is easier to use.
        "priority": machine.priority.value,
        "tags": ";".join(f"{name}:{value}" for name, value in tags),
        "tagsList": [{"name": name, "value": value} for name, value in tags],
        "vmSize": machine.size or cloud.size,
        "zone": machine.zone,
    }
    return {name: fields[name] for name, since in _SINCE.items() if since <= version}


def _identity(
    cloud: CloudSettings, scope: Scope, machine: Machine, scale_set: ScaleSet | None
) -> dict[str, Tree]:
    """Return the fields that identify the machine; an instance of a Flexible set is a machine."""
    group = scope.group or cloud.group
    base = f"/subscriptions/{cloud.subscription}/resourceGroups/{group}/providers/Microsoft.Compute"
    owner = f"{base}/virtualMachineScaleSets/{scale_set.name}" if scale_set else ""
    alone = scale_set is None or scale_set.flexible  # has an id of its own
    in_placement_group = scope.kind is ScopeKind.PLACEMENT_GROUP
    return {
        "name": machine.name,
        "placementGroupId": guid("placement", scope.id).lower() if in_placement_group else "",
        "resourceGroupName": group,
        "resourceId": f"{base}/virtualMachines/{machine.name}"
        if alone
        else f"{owner}/virtualMachines/{machine.instance}",
        "subscriptionId": cloud.subscription,
        "virtualMachineScaleSet": {"id": owner if alone else ""},
        "vmId": vm_id(scope.id, machine),
        "vmScaleSetName": scale_set.name if scale_set else "",
    }


def _network(interface: NetworkInterface) -> Tree:
    ipv4: Tree = {"privateIpAddress": interface.address, "publicIpAddress": interface.public}
    ipv6: list[Tree] = [{"privateIpAddress": interface.ipv6}] if interface.ipv6 else []
    return {
        "interface": [
            {
                "ipv4": {
                    "ipAddress": [ipv4],
                    "subnet": [{"address": interface.subnet, "prefix": str(interface.prefix)}],
                },
                "ipv6": {"ipAddress": ipv6},
                "macAddress": interface.mac,
            }
        ]
    }
