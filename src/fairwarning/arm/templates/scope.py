"""The resource group and the name of a deployment, and the functions that depend on them."""

from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import NoReturn
from uuid import uuid4

from fairwarning.arm.catalogue import api_versions, document
from fairwarning.arm.templates.evaluation import Functions, TemplateFunction
from fairwarning.arm.templates.functions.times import UTC_NOW_FORMAT, format_time
from fairwarning.arm.templates.names import group_path, id_functions
from fairwarning.arm.templates.values import TemplateError, Value
from fairwarning.core.record import record

ZONES = ("1", "2", "3")


@record
class DeploymentScope:
    """The resource group and the name of a deployment; the location is the group's."""

    subscription: str
    group: str
    location: str
    name: str
    tenant: str = ""
    endpoint: str = ""  # the URL of the control plane
    now: float = 0.0
    tags: Mapping[str, str] = field(default_factory=dict)  # of the group

    @property
    def group_id(self) -> str:
        """The id of the resource group."""
        return group_path(self.subscription, self.group)


def scope_functions(scope: DeploymentScope) -> Functions:
    """Return the functions that depend on where and as what a template is deployed."""

    def provider(namespace: str, kind: str) -> Value:
        versions = [*api_versions(namespace)]
        return {"resourceType": kind, "locations": [scope.location], "apiVersions": versions}

    values = document(
        "templateScope",
        subscription=scope.subscription,
        tenant=scope.tenant,
        group=scope.group,
        group_id=scope.group_id,
        location=scope.location,
        tags=scope.tags,
        name=scope.name,
        url=f"{scope.endpoint}/",
    )
    documents = {
        name: TemplateFunction(lambda document=document: document)
        for name, document in values.items()
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
