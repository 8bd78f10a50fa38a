"""The api-versions of Azure's resource providers that public clients use, newest first.

They are lists and not ranges of dates: Azure refuses a date on which it published no version, and
a script with such a date should fail here, too. A version counts if a public client has it: Azure's
SDKs for Python and Go, the Azure CLI, Ansible's collection, Libcloud, the Bicep types.
"""

from collections.abc import Mapping

from fairwarning.arm.http.errors import ArmError


def _versions(text: str) -> tuple[str, ...]:
    return tuple(text.split())


COMPUTE = _versions(
    "2026-04-01 2026-03-01 2025-11-01 2025-04-01 2024-11-01 2024-07-01 2024-03-01 2023-09-01 "
    "2023-07-01 2023-03-01 2022-11-01 2022-08-01 2022-03-01 2021-12-01 2021-11-01 2021-08-01 "
    "2021-07-01 2021-04-01 2021-03-01 2020-12-01 2020-06-01 2020-05-01 2019-12-01 2019-11-01 "
    "2019-07-01 2019-04-01 2019-03-01 2018-10-01 2018-06-01 2018-04-01 2017-12-01 2017-09-01 "
    "2017-03-30 2016-04-30-preview 2016-03-30 2015-06-15"
)
"""Of machines, scale sets, availability sets, images and quotas."""
DISKS = _versions(
    "2026-03-02 2025-01-02 2024-03-02 2023-10-02 2023-04-02 2023-01-02 2022-07-02 2022-03-02 "
    "2021-12-01 2021-08-01 2021-04-01 2020-12-01 2020-09-30 2020-06-30 2020-05-01 2019-11-01 "
    "2019-07-01 2019-03-01 2018-09-30 2018-06-01 2018-04-01 2017-03-30"
)
GALLERIES = _versions(
    "2024-03-03 2023-07-03 2022-08-03 2022-03-03 2022-01-03 2021-10-01 2018-09-30"
)
"""Of image galleries; old clients use them for other types, too."""
CLOUD_SERVICES = _versions("2024-11-04 2022-09-04 2022-04-04 2021-03-01 2020-10-01-preview")
NETWORK = _versions(
    "2026-03-01 2025-09-01 2025-07-01 2025-05-01 2025-03-01 2025-01-01 2024-10-01 2024-07-01 "
    "2024-05-01 2024-03-01 2024-01-01 2023-11-01 2023-09-01 2023-06-01 2023-05-01 2023-04-01 "
    "2023-02-01 2022-11-01 2022-09-01 2022-07-01 2022-05-01 2022-01-01 2021-08-01 2021-05-01 "
    "2021-03-01 2021-02-01 2020-11-01 2020-08-01 2020-07-01 2020-06-01 2020-05-01 2020-04-01 "
    "2020-03-01 2019-12-01 2019-11-01 2019-09-01 2019-08-01 2019-07-01 2019-06-01 2019-04-01 "
    "2019-02-01 2018-12-01 2018-11-01 2018-10-01 2018-08-01 2018-07-01 2018-06-01 2018-04-01 "
    "2018-02-01 2018-01-01 2017-11-01 2017-10-01 2017-09-01 2017-08-01 2017-06-01 2017-04-01 "
    "2017-03-30 2017-03-01 2016-12-01 2016-10-01 2016-09-01 2016-06-01 2016-03-30 2015-06-15 "
    "2015-05-01-preview"
)
RESOURCES = _versions(
    "2026-06-01 2025-04-01 2025-03-01 2024-11-01 2024-08-01 2024-07-01 2024-03-01 2023-08-01 "
    "2023-07-01 2022-12-01 2022-09-01 2022-06-01 2022-05-01 2022-01-01 2021-10-01 2021-04-01 "
    "2021-01-01 2020-10-01 2020-09-01 2020-08-01 2020-07-01 2020-06-01 2020-05-01 2020-01-01 "
    "2019-11-01 2019-10-01 2019-09-01 2019-08-01 2019-07-01 2019-06-01 2019-05-10 2019-05-01 "
    "2019-03-01 2018-11-01 2018-09-01 2018-08-01 2018-07-01 2018-06-01 2018-05-01 2018-02-01 "
    "2018-01-01 2017-08-01 2017-06-01 2017-05-10 2017-05-01 2017-03-01 2016-09-01 2016-07-01 "
    "2016-06-01 2016-02-01 2015-11-01 2015-01-01 2014-04-01-preview 2014-04-01"
)
"""Of groups, deployments, tags, subscriptions and tenants."""
MAINTENANCE = _versions(
    "2025-10-01-preview 2023-10-01-preview 2023-09-01-preview 2023-04-01 2022-11-01-preview "
    "2022-07-01-preview 2021-09-01-preview 2021-05-01 2021-04-01-preview 2020-07-01-preview "
    "2020-04-01 2018-06-01-preview"
)
AUTOSCALE = _versions("2022-10-01 2021-05-01-preview 2015-04-01 2014-04-01")
LOCKS = _versions("2020-05-01 2017-04-01 2016-09-01 2015-06-01 2015-01-01")
INSIGHTS = _versions("2017-03-01-preview 2015-04-01 2014-04-01")
"""Of the activity log."""
GRAPH = _versions(
    "2024-04-01 2022-10-01 2022-06-01 2021-06-01-preview 2021-03-01 2020-04-01-preview 2019-04-01 "
    "2018-09-01-preview"
)
"""Of Azure Resource Graph."""

_RESOURCES = "Microsoft.Resources"
_ACCEPTED: Mapping[str, frozenset[str]] = {
    "Microsoft.Authorization": frozenset(LOCKS),
    "Microsoft.Compute": frozenset({*COMPUTE, *DISKS, *GALLERIES, *CLOUD_SERVICES}),
    "Microsoft.Insights": frozenset({*AUTOSCALE, *INSIGHTS}),
    "Microsoft.Maintenance": frozenset(MAINTENANCE),
    "Microsoft.Network": frozenset(NETWORK),
    "Microsoft.ResourceGraph": frozenset(GRAPH),
    _RESOURCES: frozenset(RESOURCES),
}
"""By namespace, every version that any of its types has: old clients use one for all types."""
_SHARED = "locations/{location}/operations/"  # polled with the api-version of any other provider


def check_api_version(route: str, version: str, location: str) -> None:
    """Refuse an api-version that the provider of this route never had, as Azure does."""
    _, provider, resource = route.rpartition("/providers/")
    namespace, _, rest = resource.partition("/")
    if not provider or namespace.startswith("{"):  # groups, subscriptions, providers
        namespace = _RESOURCES
    accepted = _ACCEPTED.get(namespace)
    if accepted is None or version in accepted or rest.startswith(_SHARED):
        return
    supported = ", ".join(sorted(accepted, reverse=True))
    if namespace == _RESOURCES:
        text = f"The api-version '{version}' is invalid. The supported versions are '{supported}'."
        raise ArmError("InvalidApiVersionParameter", text)
    kind = rest.partition("/")[0]
    raise ArmError(
        "NoRegisteredProviderFound",
        f"No registered resource provider found for location '{location}' and API version "
        f"'{version}' for type '{kind}'. The supported api-versions are '{supported}'. The "
        f"supported locations are '{location}'.",
    )
