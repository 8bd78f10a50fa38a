"""Template deployments: `Microsoft.Resources/deployments`, which the Azure CLI uses to create.

All resources of a template are written before the deployment is acknowledged. A crash leaves either
no deployment, which the client may send again, or a finished one.
"""

import re
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import RETRY_SECONDS, ArmRequest, Body, accepted, json_response
from fairwarning.arm.http.routes import GROUP, Route
from fairwarning.arm.resources import (
    availability,
    cloud_services,
    documents,
    groups,
    locks,
    machine_items,
    machines,
    maintenance_configurations,
    network,
    providers,
    scale_sets,
    set_extensions,
)
from fairwarning.arm.resources.azure_scopes import AzureScope
from fairwarning.arm.resources.writing import (
    DesiredResource,
    Put,
    ResourceWrite,
    check_name,
    write_resource,
)
from fairwarning.arm.templates.steps import TemplateStep
from fairwarning.arm.templates.template import DeploymentScope, ReferenceNeeded, Template
from fairwarning.core.commands import Remove
from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.core.times import iso
from fairwarning.service.resources import (
    AVAILABILITY_SET,
    CLOUD_SERVICE,
    MACHINE,
    SCALE_SET,
    Resource,
)

KIND = groups.DEPLOYMENT
PUTS: Mapping[str, Put] = {
    MACHINE.lower(): machines.put,
    SCALE_SET.lower(): scale_sets.put,
    AVAILABILITY_SET.lower(): availability.put,
    CLOUD_SERVICE.lower(): cloud_services.put,
    **network.PUTS,
    **machine_items.PUTS,
    set_extensions.KIND.lower(): set_extensions.put,
    groups.CONFIGURATION.lower(): maintenance_configurations.put,
}
"""The write function of each resource type, by its name in lower case."""
_ID = re.compile(
    r"/subscriptions/[^/]+/resourcegroups/(?P<group>[^/]+)/providers/(?P<namespace>[^/]+)"
    r"/(?P<rest>[^/]+/[^/]+(?:/[^/]+/[^/]+)*)"
)


class DeploymentRun:
    """Deploys the resources of a template, one after the other."""

    def __init__(self, context: ArmContext, request: ArmRequest, template: Template) -> None:
        self._context = context
        self._request = request
        self._template = template
        self._known: dict[str, Body] = {}

    async def deploy(self) -> Body:
        """Write the resources of the template, and return its outputs."""
        for step in self._template.resources:
            body = await self._evaluate(step)
            put = PUTS.get(step.type.lower())
            if put is None:
                known = ", ".join(sorted(PUTS))
                text = f"resource type '{step.type}' is not supported; supported types are {known}"
                raise Refused("InvalidTemplate", text)
            write = ResourceWrite(
                group=self._request.group,
                name=step.name,
                body=documents.sanitize(body),
                version=step.version,
                actor=self._request.actor,
                operation=new_operation(),
            )
            await locks.check_write(
                self._context, AzureScope(self._request.group, step.type, step.name)
            )
            result = await put(self._context, write)
            self._known[step.id.lower()] = result.document
        while True:
            try:
                return self._template.outputs(self._known)
            except ReferenceNeeded as reference:
                await self._look_up(reference.id)

    async def _evaluate(self, step: TemplateStep) -> Body:
        while True:
            try:
                return self._template.resource(step, self._known)
            except ReferenceNeeded as reference:
                await self._look_up(reference.id)

    async def _look_up(self, path: str) -> None:
        """Read a resource that the template refers to and does not deploy."""
        matched = _ID.fullmatch(path)
        if matched is None or matched["group"] != self._request.group.lower():
            text = f"'{path[:200]}' is not in this resource group; reference() needs one that is"
            raise Refused("InvalidTemplate", text)
        parts = matched["rest"].split("/")
        kind = "/".join([matched["namespace"], *parts[::2]])
        name = "/".join(parts[1::2])
        resource = await self._context.get(kind, self._request.group, name)
        self._known[path] = documents.stored_body(resource)


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    """Deploy a template; an error becomes the deployment's status, as Azure's tools expect."""
    check_name(request.name)
    group = await context.group(request.group)
    body = await request.body()
    outcome: Body = {"provisioningState": "Succeeded"}
    try:
        outcome["outputs"] = await DeploymentRun(
            context, request, _template(context, request, group, body)
        ).deploy()
    except FairwarningError as error:
        code, message = _reason(error)
        outcome = {"provisioningState": "Failed", "error": {"code": code, "message": message}}
    if not documents.fits(outcome):
        text = "The outputs are too long to store; all resources were deployed."
        failed = {"code": "DeploymentFailed", "message": text}
        outcome = {"provisioningState": "Failed", "error": failed}
    resource = await _store(context, request, body, outcome)
    running = document(context, resource)
    running["properties"] = {**running["properties"], "provisioningState": "Running"}
    path = context.arm_id(KIND, group.name, resource.name)
    status = request.link(f"{path}/operationStatuses/{_operation(resource)}")
    headers = {"Azure-AsyncOperation": status, "Retry-After": RETRY_SECONDS}
    return json_response(running, 201, headers)


def _template(context: ArmContext, request: ArmRequest, group: Resource, body: Body) -> Template:
    properties = body.get("properties")
    if not isinstance(properties, dict):
        raise Refused("InvalidTemplate", "properties must be an object with mode and template")
    scope = DeploymentScope(
        subscription=context.cloud.subscription,
        group=group.name,
        location=str(documents.stored_body(group).get("location", context.cloud.location)),
        name=request.name,
    )
    return Template(properties, scope, providers.api_versions)


def _reason(error: FairwarningError) -> tuple[str, str]:
    _, body = errors.from_error(error)
    reason: Any = body["error"]
    return reason["code"], reason["message"]


async def _store(context: ArmContext, request: ArmRequest, body: Body, outcome: Body) -> Resource:
    """Store the outcome of a deployment, without template and parameters: they contain secrets."""
    properties = body.get("properties")
    mode = properties.get("mode") if isinstance(properties, dict) else None
    stored: Body = {
        "properties": {
            "mode": mode[:20] if isinstance(mode, str) else "Incremental",
            "timestamp": iso(int(context.fleet.clock.now())),
            "correlationId": new_operation(),
            "duration": "PT0S",
            **outcome,
        }
    }

    async def plan(_: Resource | None, __: Body, ___: Resource) -> DesiredResource:
        return DesiredResource(stored)

    write = ResourceWrite(request.group, request.name, stored, request.version, request.actor)
    resource, _, _ = await write_resource(context, KIND, write, plan)
    return resource


def _operation(resource: Resource) -> str:
    properties: Body = documents.stored_body(resource)["properties"]
    return str(properties["correlationId"])


def document(context: ArmContext, resource: Resource) -> Body:
    """Return a deployment in Azure's form."""
    return {
        "id": context.arm_id(KIND, resource.group, resource.name),
        "name": resource.name,
        "type": KIND,
        **documents.stored_body(resource),
    }


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    return json_response(document(context, await context.get(KIND, request.group, request.name)))


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    page, token = await context.page(request, KIND, request.group)
    value = [document(context, resource) for resource in page]
    return json_response({"value": value, **context.next_link(request, token)})


async def _status(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(KIND, request.group, request.name)
    properties: Body = documents.stored_body(resource)["properties"]
    if request.params["operation"] != _operation(resource):
        raise ArmError("NotFound", "The deployment has no such operation.", 404)
    status: Body = {"status": properties["provisioningState"]}
    if "error" in properties:
        status["error"] = properties["error"]
    return json_response(status)


async def _validate(context: ArmContext, request: ArmRequest) -> Response:
    """Validate a template without deploying it."""
    group = await context.group(request.group)
    template = _template(context, request, group, await request.body())
    ids = [{"id": step.id} for step in template.resources]
    properties = {"provisioningState": "Succeeded", "validatedResources": ids}
    return json_response({"name": request.name, "properties": properties})


async def _operations(context: ArmContext, request: ArmRequest) -> Response:
    await context.get(KIND, request.group, request.name)
    return json_response({"value": []})


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.find(KIND, request.group, request.name)
    if resource is None:
        return Response(b"", 204)
    remove = Remove(resource=resource.id, operation=new_operation(), actor=request.actor)
    return accepted(request, await context.fleet.submit(remove), context.cloud.location)


_COLLECTION = f"{GROUP}/providers/Microsoft.Resources/deployments"
_ITEM = f"{_COLLECTION}/{{name}}"
ROUTES = (
    Route("GET", _COLLECTION, _list),
    Route("GET", _ITEM, _get),
    Route("PUT", _ITEM, _put),
    Route("DELETE", _ITEM, _delete),
    Route("POST", f"{_ITEM}/validate", _validate),
    Route("GET", f"{_ITEM}/operations", _operations),
    Route("GET", f"{_ITEM}/operationStatuses/{{operation}}", _status),
)
