"""`python -m deploy.schema`: write `shapes.json` of `fairwarning.arm.schema` anew.

Run it with the Python of `.venv` after a change of the lists below, or of the pins of
azure-mgmt-compute and azure-mgmt-network in constraints.txt.

The file has, by resource provider: the version of the SDK, the model of each resource type, the
members of each model, and the words of each enumeration. The type of a member is `text`, `flag`,
`whole`, `decimal`, `any`, `reference`, or the name of a model or an enumeration; `[...]` is a list,
`{...}` a map.
"""

import enum
import json
import sys
import typing
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeGuard

import typing_extensions

FILE = Path(__file__).parents[2] / "src/fairwarning/arm/schema/shapes.json"
PACKAGES = {"Microsoft.Compute": "azure-mgmt-compute", "Microsoft.Network": "azure-mgmt-network"}
MODELS: Mapping[str, Mapping[str, str]] = {
    "Microsoft.Compute": {
        "availabilitySets": "AvailabilitySet",
        "disks": "Disk",
        "images": "Image",
        "proximityPlacementGroups": "ProximityPlacementGroup",
        "sshPublicKeys": "SshPublicKeyResource",
        "virtualMachineScaleSets": "VirtualMachineScaleSet",
        "virtualMachineScaleSets/virtualMachines": "VirtualMachineScaleSetVM",
        "virtualMachines": "VirtualMachine",
    },
    "Microsoft.Network": {
        "loadBalancers": "LoadBalancer",
        "loadBalancers/inboundNatRules": "InboundNatRule",
        "networkInterfaces": "NetworkInterface",
        "networkSecurityGroups": "NetworkSecurityGroup",
        "networkSecurityGroups/securityRules": "SecurityRule",
        "publicIPAddresses": "PublicIPAddress",
        "virtualNetworks": "VirtualNetwork",
        "virtualNetworks/subnets": "Subnet",
    },
}
"""The resource types that have shapes, and the model of each."""

OWNED = {
    "LoadBalancerPropertiesFormat": "frontendIPConfigurations backendAddressPools probes "
    "loadBalancingRules inboundNatRules inboundNatPools outboundRules",
    "NetworkInterfacePropertiesFormat": "ipConfigurations",
    "NetworkSecurityGroupPropertiesFormat": "securityRules defaultSecurityRules",
    "SubnetPropertiesFormat": "delegations",
    "VirtualNetworkPropertiesFormat": "subnets virtualNetworkPeerings",
}
"""The parts of a network resource, by model. Other resources inside it are references: tools read a
resource and write it back with those inside, and only their ids are converted."""
COMPUTED = {"colocationStatus", "instanceView", "statuses", "systemData"}
"""Members that only the service writes: their values are kept as they are."""
INCOMPLETE = {"DiskApiVersion", "NetworkApiVersion", "VirtualMachineSizeTypes"}
"""Enumerations of which the SDK has only some words: any text is kept as it is."""
DEPTH = 3
"""The levels of the file that have lines of their own: providers, sections, models."""
SCALARS = {bool: "flag", int: "whole", float: "decimal", str: "text"}


class Walk:
    """The models and enumerations that the resource types of a provider need."""

    def __init__(self, package: str) -> None:
        module = package.replace("-", ".")
        self._types = vars(import_module(f"{module}.types"))
        self._names = {**vars(import_module(f"{module}.models")), **self._types}
        self._network = package == PACKAGES["Microsoft.Network"]
        self.models: dict[str, dict[str, str]] = {}
        self.words: dict[str, list[str]] = {}

    def add(self, name: str) -> str:
        """Add a model with what it needs; return its name."""
        if name not in self.models:
            self.models[name] = {}  # before its members, which may need it
            owned = OWNED.get(name, "").split()
            for member, hint in sorted(self._members(name).items()):
                text = "any" if member in COMPUTED else self._type(hint, owned=member in owned)
                self.models[name][member] = text
        return name

    def _members(self, name: str) -> dict[str, Any]:
        return typing_extensions.get_type_hints(self._types[name], self._names)

    def _type(self, hint: Any, *, owned: bool) -> str:  # noqa: ANN401  (any annotation)
        options = [part for part in typing.get_args(hint) if part is not type(None)]
        if typing.get_origin(hint) is typing.Union:
            words = [part for part in options if is_enumeration(part)]
            return self._type(words[0] if words else options[0], owned=owned)
        if typing.get_origin(hint) is list:
            return f"[{self._type(options[0], owned=owned)}]"
        if typing.get_origin(hint) is dict:
            return f"{{{self._type(options[1], owned=owned)}}}"
        if typing_extensions.is_typeddict(hint):
            return self._object(hint.__name__, owned=owned)
        if is_enumeration(hint):
            return self._enumeration(hint)
        return "any" if hint in {object, Any} else SCALARS[hint]

    def _object(self, name: str, *, owned: bool) -> str:
        members = self._members(name).keys()
        resource = self._network and {"id", "properties"} <= members and not owned
        return "reference" if resource or members == {"id"} else self.add(name)

    def _enumeration(self, kind: type[enum.Enum]) -> str:
        if kind.__name__ in INCOMPLETE:
            return "text"
        self.words[kind.__name__] = [str(word.value) for word in kind]
        return kind.__name__


def is_enumeration(hint: object) -> TypeGuard[type[enum.Enum]]:
    """Whether a type is an enumeration."""
    return isinstance(hint, type) and issubclass(hint, enum.Enum)


def installed(package: str) -> str:
    """Return the name of a package and its installed version."""
    return f"{package} {version(package)}"


def generate() -> dict[str, Any]:
    """Return the content of the file."""
    content = {}
    for provider, types in MODELS.items():
        package = PACKAGES[provider]
        walk = Walk(package)
        content[provider] = {
            "sdk": installed(package),
            "types": {kind: walk.add(model) for kind, model in types.items()},
            "models": dict(sorted(walk.models.items())),
            "words": dict(sorted(walk.words.items())),
        }
    return content


def text_of(value: object, level: int = 0) -> str:
    """Return the content as text, with a line for each model and enumeration."""
    if level == DEPTH or not isinstance(value, dict):
        return json.dumps(value)
    indent = " " * level
    lines = [
        f"{indent} {json.dumps(key)}: {text_of(part, level + 1)}" for key, part in value.items()
    ]
    return "\n".join(["{", ",\n".join(lines), f"{indent}}}"])


def main() -> None:
    """Write the file."""
    FILE.write_text(text_of(generate()) + "\n", "utf-8")
    sys.stdout.write(f"{FILE} written\n")


if __name__ == "__main__":
    main()
