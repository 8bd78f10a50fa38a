"""Resource providers with their resource types and api-versions, from the records of the types."""

from collections.abc import Iterable, Iterator, Mapping

from fairwarning.arm.catalogue import api_versions
from fairwarning.arm.types.resource_type import ResourceTypes

_DEFAULT = ("2024-11-01",)  # of types that are only stored
_OTHERS: Mapping[str, tuple[str, ...]] = {
    "compute": tuple(
        f"Microsoft.Compute/{name}"
        for name in (
            "locations", "locations/operations", "locations/publishers", "locations/usages",
            "locations/vmSizes", "skus",
        )
    ),
    "maintenance": ("Microsoft.Maintenance/scheduledEvents",),
    "resources": tuple(
        f"Microsoft.Resources/{name}"
        for name in ("providers", "resourceGroups", "resources", "subscriptions", "tenants")
    ),
}  # fmt: skip
"""Types that have paths but no resources, by family of api-versions."""


def _all_types(types: ResourceTypes) -> Iterator[tuple[str, tuple[str, ...]]]:
    for kind in types:
        yield kind.name, kind.api_versions
        yield from ((f"{kind.name}/{part}", kind.api_versions) for part in kind.nested)
    for family, names in _OTHERS.items():
        yield from ((name, api_versions(family)) for name in names)


def providers(types: ResourceTypes) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the known types of each namespace, with their api-versions."""
    namespaces: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, versions in sorted(_all_types(types)):
        namespace, _, kind = name.partition("/")
        namespaces.setdefault(namespace, {})[kind] = versions
    return namespaces


def versions_of(types: ResourceTypes, kind: str) -> tuple[str, ...]:
    """Return the api-versions of a resource type, newest first."""
    matches: Iterable[tuple[str, ...]] = (
        versions for name, versions in _all_types(types) if name.lower() == kind.lower()
    )
    return next(iter(matches), _DEFAULT)
