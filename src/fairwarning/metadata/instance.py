"""What a machine is told about itself (M19). Pure: manners and versions are the caller's (M3, M4).

Every single value is a string, and one that is not known is the empty string.
"""

import json
from collections.abc import Sequence

from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import Machine, Priority, Scope, ScopeKind, guid
from fairwarning.metadata.answers import JSON
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
"""The api-versions of instance metadata, the oldest first."""

NEWEST: tuple[str, ...] = VERSIONS[:-4:-1]
"""What errors offer instead of a version that is not known, the newest first (M3)."""

_TEXT = "text/plain; charset=utf-8"

# The version that brought each field of `compute`, in the order in which they are shown.
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

# What no machine of ours differs in.
_FIXED: dict[str, Tree] = {
    "azEnvironment": "AzurePublicCloud",
    "offer": "",
    "osType": "Linux",
    "physicalZone": "",
    "plan": {"name": "", "product": "", "publisher": ""},
    "provider": "Microsoft.Compute",
    "publicKeys": [],
    "publisher": "",
    "sku": "",
    "version": "",
    "virtualMachineScaleSet": {"id": ""},  # of Flexible sets only; ours are Uniform
}


def versions_body() -> bytes:
    """The answer to GET /metadata/versions: compact JSON, the oldest version first."""
    return _compact({"apiVersions": list(VERSIONS)})


def answer(
    cloud: CloudSettings,
    scope: Scope,
    machine: Machine,
    version: str,
    path: Sequence[str],
    *,
    text: bool,
) -> tuple[bytes, str]:
    """Body and content type of what stands at `path` below /metadata/instance.

    `version` is one of VERSIONS; `path` matches letter by letter, and numbers walk arrays. A single
    value is given as text only; of anything else, text gives the names in it, one a line, with a
    slash behind those that lead further.
    """
    found: Tree = {
        "compute": _compute(cloud, scope, machine, version),
        "network": _network(machine),
    }
    for depth, step in enumerate(path):
        parts = _parts(found)
        if step not in parts:
            place = "/".join(("instance", *path[:depth]))
            raise NotFound("UnknownPath", f"there is no {step[:60]!r} in {place}")
        found = parts[step]
    if text:
        return _plain(found).encode(), _TEXT
    if isinstance(found, str):
        place = "/".join(("instance", *path))
        raise Refused("TextOnly", f"{place} is a single value; ask for it with format=text")
    return _compact(found), JSON


def _compact(tree: Tree) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()


def _plain(tree: Tree) -> str:
    if isinstance(tree, str):
        return tree
    parts = _parts(tree)
    return "\n".join(n if isinstance(part, str) else f"{n}/" for n, part in parts.items())


def _parts(tree: Tree) -> dict[str, Tree]:
    """What a path may go on to, by the segment that leads there."""
    if isinstance(tree, str):
        return {}
    if isinstance(tree, list):
        return {str(n): part for n, part in enumerate(tree)}
    return tree


def _compute(cloud: CloudSettings, scope: Scope, machine: Machine, version: str) -> Tree:
    tags = sorted(machine.tags.items())
    spot = machine.priority is Priority.SPOT
    known: dict[str, Tree] = {
        **_FIXED,
        **_identity(cloud, scope, machine),
        "evictionPolicy": machine.eviction.value if spot else "",
        "location": cloud.location,
        "osProfile": {
            "adminUsername": "",
            "computerName": machine.host_name or machine.name,
            "disablePasswordAuthentication": "",
        },
        "platformFaultDomain": str(machine.fault_domain),
        "platformUpdateDomain": str(machine.update_domain),
        # Azure leaves it empty for most Regular machines; one word for each kind is easier to use.
        "priority": machine.priority.value,
        "tags": ";".join(f"{name}:{value}" for name, value in tags),
        "tagsList": [{"name": name, "value": value} for name, value in tags],
        "vmSize": machine.size or cloud.size,
        "zone": machine.zone,
    }
    return {name: known[name] for name, since in _SINCE.items() if since <= version}


def _identity(cloud: CloudSettings, scope: Scope, machine: Machine) -> dict[str, Tree]:
    """Which machine it is, in all the ways there are to name it."""
    group = scope.group or cloud.group
    home = f"/subscriptions/{cloud.subscription}/resourceGroups/{group}/providers/Microsoft.Compute"
    scale_set, resource = "", f"virtualMachines/{machine.name}"
    if scope.owner:  # instances are named after their set and their id in it (T7)
        scale_set = machine.name.rpartition("_")[0]
        resource = f"virtualMachineScaleSets/{scale_set}/virtualMachines/{machine.instance}"
    placed = scope.kind is ScopeKind.PLACEMENT_GROUP
    return {
        "name": machine.name,
        "placementGroupId": guid("placement", scope.id).lower() if placed else "",
        "resourceGroupName": group,
        "resourceId": f"{home}/{resource}",
        "subscriptionId": cloud.subscription,
        "vmId": vm_id(scope.id, machine),
        "vmScaleSetName": scale_set,
    }


def _network(machine: Machine) -> Tree:
    return {
        "interface": [
            {
                "ipv4": {
                    "ipAddress": [{"privateIpAddress": machine.address, "publicIpAddress": ""}],
                    "subnet": [{"address": "", "prefix": ""}],
                },
                "ipv6": {"ipAddress": []},
                "macAddress": "",
            }
        ]
    }
