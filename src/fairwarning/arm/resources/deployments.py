"""Template deployments: `Microsoft.Resources/deployments`, which is how the Azure CLI creates.

Everything a template asks for is written before the deployment is acknowledged: a crash leaves
either no deployment, which may be sent again, or one that is over.
"""

import re
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import RETRY_SECONDS, ArmRequest, Body, accepted, answer
from fairwarning.arm.http.routes import GROUP, Route
from fairwarning.arm.resources import (
    availability,
    cloud_services,
    documents,
    groups,
    machines,
    network,
    providers,
    scale_sets,
)
from fairwarning.arm.resources.writing import DesiredResource, Put, ResourceWrite, check_name, write
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
_PUTS: Mapping[str, Put] = {
    MACHINE.lower(): machines.put,
    SCALE_SET.lower(): scale_sets.put,
    AVAILABILITY_SET.lower(): availability.put,
    CLOUD_SERVICE.lower(): cloud_services.put,
    **network.PUTS,
}
_ID = re.compile(
    r"/subscriptions/[^/]+/resourcegroups/(?P<group>[^/]+)/providers/(?P<namespace>[^/]+)"
    r"/(?P<rest>[^/]+/[^/]+(?:/[^/]+/[^/]+)*)"
)


class DeploymentRun:
    """One deployment: a template, step by step."""

    def __init__(self, plane: ArmContext, call: ArmRequest, template: Template) -> None:
        self._plane = plane
        self._call = call
        self._template = template
        self._found: dict[str, Body] = {}

    async def deploy(self) -> Body:
        """Write all that the template asks for; its outputs."""
        for step in self._template.resources:
            body = await self._evaluated(step)
            put = _PUTS.get(step.type.lower())
            if put is None:
                known = ", ".join(sorted(_PUTS))
                text = f"resources of type '{step.type}' cannot be deployed; there are {known}"
                raise Refused("InvalidTemplate", text)
            ask = ResourceWrite(
                group=self._call.group,
                name=step.name,
                body=documents.cleaned(body),
                version=step.version,
                actor=self._call.actor,
                operation=new_operation(),
            )
            written = await put(self._plane, ask)
            self._found[step.id.lower()] = written.document
        while True:
            try:
                return self._template.outputs(self._found)
            except ReferenceNeeded as needs:
                await self._look_up(needs.id)

    async def _evaluated(self, step: TemplateStep) -> Body:
        while True:
            try:
                return self._template.resource(step, self._found)
            except ReferenceNeeded as needs:
                await self._look_up(needs.id)

    async def _look_up(self, path: str) -> None:
        """A resource that the template speaks of and does not make."""
        matched = _ID.fullmatch(path)
        if matched is None or matched["group"] != self._call.group.lower():
            text = f"reference() knows the resources of this group; '{path[:200]}' is none"
            raise Refused("InvalidTemplate", text)
        parts = matched["rest"].split("/")
        kind = "/".join([matched["namespace"], *parts[::2]])
        name = "/".join(parts[1::2])
        resource = await self._plane.get(kind, self._call.group, name)
        self._found[path] = documents.written(resource)


async def _put(plane: ArmContext, call: ArmRequest) -> Response:
    """Deploy; what goes wrong is told by the deployment's status, as Azure's tools expect."""
    check_name(call.name)
    group = await plane.group(call.group)
    body = await call.body()
    outcome: Body = {"provisioningState": "Succeeded"}
    try:
        outcome["outputs"] = await DeploymentRun(
            plane, call, _template(plane, call, group, body)
        ).deploy()
    except FairwarningError as error:
        code, message = _reason(error)
        outcome = {"provisioningState": "Failed", "error": {"code": code, "message": message}}
    if not documents.fits(outcome):
        text = "The outputs are too long to be kept; all else was deployed."
        failed = {"code": "DeploymentFailed", "message": text}
        outcome = {"provisioningState": "Failed", "error": failed}
    resource = await _keep(plane, call, body, outcome)
    shown = document(plane, resource)
    shown["properties"] = {**shown["properties"], "provisioningState": "Running"}
    status = call.link(
        f"{plane.path(KIND, group.name, resource.name)}/operationStatuses/{_operation(resource)}"
    )
    headers = {"Azure-AsyncOperation": status, "Retry-After": RETRY_SECONDS}
    return answer(shown, 201, headers)


def _template(plane: ArmContext, call: ArmRequest, group: Resource, body: Body) -> Template:
    properties = body.get("properties")
    if not isinstance(properties, dict):
        raise Refused("InvalidTemplate", "properties must be an object with mode and template")
    home = DeploymentScope(
        subscription=plane.cloud.subscription,
        group=group.name,
        location=str(documents.written(group).get("location", plane.cloud.location)),
        name=call.name,
    )
    return Template(properties, home, providers.versions)


def _reason(error: FairwarningError) -> tuple[str, str]:
    _, body = errors.from_error(error)
    told: Any = body["error"]
    return told["code"], told["message"]


async def _keep(plane: ArmContext, call: ArmRequest, body: Body, outcome: Body) -> Resource:
    """What the deployment came to. Neither its template nor its parameters: secrets are in them."""
    properties = body.get("properties")
    mode = properties.get("mode") if isinstance(properties, dict) else None
    kept: Body = {
        "properties": {
            "mode": mode[:20] if isinstance(mode, str) else "Incremental",
            "timestamp": iso(int(plane.fleet.clock.now())),
            "correlationId": new_operation(),
            "duration": "PT0S",
            **outcome,
        }
    }

    async def plan(_: Resource | None, __: Body, ___: Resource) -> DesiredResource:
        return DesiredResource(kept)

    ask = ResourceWrite(call.group, call.name, kept, call.version, call.actor)
    resource, _, _ = await write(plane, KIND, ask, plan)
    return resource


def _operation(resource: Resource) -> str:
    properties: Body = documents.written(resource)["properties"]
    return str(properties["correlationId"])


def document(plane: ArmContext, resource: Resource) -> Body:
    """A deployment as Azure shows it."""
    return {
        "id": plane.path(KIND, resource.group, resource.name),
        "name": resource.name,
        "type": KIND,
        **documents.written(resource),
    }


async def _get(plane: ArmContext, call: ArmRequest) -> Response:
    return answer(document(plane, await plane.get(KIND, call.group, call.name)))


async def _list(plane: ArmContext, call: ArmRequest) -> Response:
    found, token = await plane.page(call, KIND, call.group)
    shown = [document(plane, one) for one in found]
    return answer({"value": shown, **plane.next_link(call, token)})


async def _status(plane: ArmContext, call: ArmRequest) -> Response:
    resource = await plane.get(KIND, call.group, call.name)
    properties: Body = documents.written(resource)["properties"]
    if call.params["operation"] != _operation(resource):
        raise ArmError("NotFound", "The deployment has no such operation.", 404)
    status: Body = {"status": properties["provisioningState"]}
    if "error" in properties:
        status["error"] = properties["error"]
    return answer(status)


async def _validate(plane: ArmContext, call: ArmRequest) -> Response:
    """Whether the template is sound; nothing is deployed."""
    group = await plane.group(call.group)
    template = _template(plane, call, group, await call.body())
    ids = [{"id": step.id} for step in template.resources]
    properties = {"provisioningState": "Succeeded", "validatedResources": ids}
    return answer({"name": call.name, "properties": properties})


async def _operations(plane: ArmContext, call: ArmRequest) -> Response:
    await plane.get(KIND, call.group, call.name)
    return answer({"value": []})


async def _delete(plane: ArmContext, call: ArmRequest) -> Response:
    resource = await plane.find(KIND, call.group, call.name)
    if resource is None:
        return Response(b"", 204)
    remove = Remove(resource=resource.id, operation=new_operation(), actor=call.actor)
    return accepted(call, await plane.fleet.submit(remove), plane.cloud.location)


_ALL = f"{GROUP}/providers/Microsoft.Resources/deployments"
_ONE = f"{_ALL}/{{name}}"
ROUTES = (
    Route("GET", _ALL, _list),
    Route("GET", _ONE, _get),
    Route("PUT", _ONE, _put),
    Route("DELETE", _ONE, _delete),
    Route("POST", f"{_ONE}/validate", _validate),
    Route("GET", f"{_ONE}/operations", _operations),
    Route("GET", f"{_ONE}/operationStatuses/{{operation}}", _status),
)
