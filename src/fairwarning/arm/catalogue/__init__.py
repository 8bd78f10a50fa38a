"""What Azure offers everywhere, as data: regions, images, sizes, api-versions, fixed documents.

They are not limits: a machine may have any image and size, and be in any region.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

_OTHER_VERSIONS = ("2024-11-01",)  # of namespaces whose types are only stored


def api_versions(kind: str) -> tuple[str, ...]:
    """Return the api-versions of a resource type that public clients use, newest first.

    Old clients use one version for all types of a namespace, so all have the same.

    They are lists and not ranges of dates: Azure refuses a date on which it published no version,
    and a script with such a date should fail here, too. A version counts if a public client has it:
    Azure's SDKs for Python and Go, the Azure CLI, Ansible's collection, Libcloud, the Bicep types.
    """
    return tuple(read("api_versions").get(kind.partition("/")[0].lower(), _OTHER_VERSIONS))


def computed_members(kind: str, **values: str) -> dict[str, Any]:
    """Return the members that Azure adds to a type that is only stored, with {name} and {guid}.

    Templates read them. They name no host that exists.
    """
    members: dict[str, Any] = _fill(read("computed_members").get(kind.lower(), {}), values)
    return members


def document(name: str, /, **values: Any) -> dict[str, Any]:  # noqa: ANN401  (any JSON)
    """Return a fixed document of Azure's, with values for its {placeholders}."""
    filled: dict[str, Any] = _fill(read("documents")[name], values)
    return filled


def _fill(part: Any, values: Mapping[str, Any]) -> Any:  # noqa: ANN401  (any JSON)
    if isinstance(part, dict):
        return {name: _fill(inner, values) for name, inner in part.items()}
    if isinstance(part, list):
        return [_fill(inner, values) for inner in part]
    if isinstance(part, str) and part.startswith("{") and part[1:-1] in values:
        return values[part[1:-1]]  # of any type
    return part.format_map(values) if isinstance(part, str) else part


@cache
def read(name: str) -> Any:  # noqa: ANN401  (any JSON)
    """Return the content of a file.

    `catalogue` has regions, images with an alias, and sizes of machines; `errors` the status and
    the text of each error; `codes` Azure's code for each error code of the core; `references` the
    members that refer to other resources.
    """
    return msgspec.json.decode(files(__package__).joinpath(f"{name}.json").read_bytes())


def normalize_region(region: str) -> str:
    """Return the normalized name of a region: `West US 2` is `westus2`."""
    return region.replace(" ", "").lower()
