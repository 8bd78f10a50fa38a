"""The resource group and the name of a deployment, and the functions that depend on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import NoReturn
from uuid import uuid4

from fairwarning.arm.templates.calls import Functions, TemplateFunction
from fairwarning.arm.templates.functions.formats import format_time
from fairwarning.arm.templates.functions.times import UTC_NOW_FORMAT
from fairwarning.arm.templates.ids import group_path, id_functions
from fairwarning.arm.templates.values import TemplateError, Value
from fairwarning.core.record import record

Versions = Callable[[str, str], Sequence[str]]
"""Returns the api-versions of a namespace and type, newest first; empty for an unknown type."""

ZONES = ("1", "2", "3")
_SUFFIXES = {
    "acrLoginServer": ".azurecr.io",
    "azureFrontDoorEndpointSuffix": "azurefd.net",
    "keyvaultDns": ".vault.azure.net",
    "sqlServerHostname": ".database.windows.net",
    "storage": "core.windows.net",
}


@record
class DeploymentScope:
    """The resource group and the name of a deployment; the location is the group's."""

    subscription: str
    group: str
    location: str
    name: str
    tenant: str = ""
    deployer: str = ""  # the object id of the client
    endpoint: str = ""  # the URL of the control plane
    now: float = 0.0
    tags: Mapping[str, str] = field(default_factory=dict)  # of the group

    @property
    def group_id(self) -> str:
        """The id of the resource group."""
        return group_path(self.subscription, self.group)


def scope_functions(scope: DeploymentScope, versions: Versions) -> Functions:
    """Return the functions that depend on where and as what a template is deployed."""

    def provider(namespace: str, kind: str) -> Value:
        known = list(versions(namespace, kind))
        if not known:
            raise TemplateError("names an unknown resource type")
        return {"resourceType": kind, "locations": [scope.location], "apiVersions": known}

    documents = {
        name: TemplateFunction(lambda document=document: document)
        for name, document in _documents(scope).items()
    }
    return {
        **id_functions(scope.subscription, scope.group),
        **documents,
        "newguid": TemplateFunction(_only_in_defaults),
        "pickzones": TemplateFunction(
            _pick_zones, ("string", "string", "string", "int", "int"), minimum=3
        ),
        "providers": TemplateFunction(provider, ("string", "string")),
        "utcnow": TemplateFunction(_only_in_defaults, ("string",), 0, 1),
    }


def _documents(scope: DeploymentScope) -> dict[str, Value]:
    """Return the results of the functions without arguments."""
    url = f"{scope.endpoint}/"
    return {
        "deployer": {
            "objectId": scope.deployer,
            "tenantId": scope.tenant,
            "userPrincipalName": "",
        },
        "deployment": {
            "name": scope.name,
            "properties": {"mode": "Incremental", "provisioningState": "Accepted"},
        },
        "environment": {
            "name": "AzureCloud",  # templates look up values by it
            "resourceManager": url,
            "portal": url,
            "graph": url,
            "gallery": url,
            "authentication": {
                "loginEndpoint": url,
                "audiences": [url],
                "tenant": scope.tenant,
                "identityProvider": "AAD",
            },
            "suffixes": _SUFFIXES,
        },
        "resourcegroup": {
            "id": scope.group_id,
            "name": scope.group,
            "type": "Microsoft.Resources/resourceGroups",
            "location": scope.location,
            "tags": scope.tags,
            "properties": {"provisioningState": "Succeeded"},
        },
        "subscription": {
            "id": f"/subscriptions/{scope.subscription}",
            "subscriptionId": scope.subscription,
            "tenantId": scope.tenant,
            "displayName": scope.subscription,
        },
        "tenant": {
            "tenantId": scope.tenant,
            "displayName": scope.tenant,
            "country": "",
            "countryCode": "",
        },
    }


def default_functions(scope: DeploymentScope) -> Functions:
    """Return the functions that only the default values of parameters may use."""

    def utc_now(form: str = UTC_NOW_FORMAT) -> str:
        return format_time(datetime.fromtimestamp(scope.now, UTC), form)

    return {
        "newguid": TemplateFunction(lambda: str(uuid4())),
        "utcnow": TemplateFunction(utc_now, ("string",), 0, 1),
    }


def _only_in_defaults(*_: str) -> NoReturn:
    raise TemplateError("is allowed only in the default value of a parameter")


def _pick_zones(
    _namespace: str, _kind: str, _location: str, count: int = 1, offset: int = 0
) -> Value:
    if not (1 <= count <= len(ZONES) and 0 <= offset <= len(ZONES) - count):
        raise TemplateError(f"takes a number of zones from 1 to {len(ZONES)}, and an offset")
    return list(ZONES[offset : offset + count])
