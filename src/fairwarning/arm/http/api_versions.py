"""Which api-versions a namespace accepts: every version that any of its types has.

Old clients use one version for all types of a namespace. Types that are only stored accept any.
"""

from collections.abc import Mapping
from functools import cache

from fairwarning.arm.catalogue import api_versions
from fairwarning.arm.http.errors import ArmError

RESOURCES = "Microsoft.Resources"
_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "Microsoft.Authorization": ("locks",),
    "Microsoft.Compute": ("compute", "disks", "galleries"),
    "Microsoft.Maintenance": ("maintenance",),
    "Microsoft.Network": ("network",),
    RESOURCES: ("resources",),
}


@cache
def accepted_versions(namespace: str) -> frozenset[str]:
    """Return the api-versions that a namespace accepts."""
    families = _FAMILIES.get(namespace, ())
    return frozenset(version for family in families for version in api_versions(family))


def check_api_version(kind: str, version: str, location: str) -> None:
    """Refuse an api-version that the provider of this type never had, as Azure does."""
    namespace, _, name = kind.partition("/")
    accepted = accepted_versions(namespace)
    if not accepted or version in accepted:
        return
    supported = ", ".join(sorted(accepted, reverse=True))
    if namespace == RESOURCES:
        text = f"The api-version '{version}' is invalid. The supported versions are '{supported}'."
        raise ArmError("InvalidApiVersionParameter", text)
    raise ArmError(
        "NoRegisteredProviderFound",
        f"No registered resource provider found for location '{location}' and API version "
        f"'{version}' for type '{name.partition('/')[0]}'. The supported api-versions are "
        f"'{supported}'. The supported locations are '{location}'.",
    )
