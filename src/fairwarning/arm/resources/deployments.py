"""Template deployments: `Microsoft.Resources/deployments`, which the Azure CLI uses to create.

All resources of a template are written, one after the other and by requests of their own, before
the deployment is acknowledged. A crash leaves either no deployment, which the client may send
again, or a finished one.
"""

from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import TypeVar

import msgspec
from starlette.responses import Response

from fairwarning.arm.catalogue import api_versions
from fairwarning.arm.http import errors, internal
from fairwarning.arm.http.azure_id import parse_id
from fairwarning.arm.http.errors import ArmError, azure_error
from fairwarning.arm.http.listing import Field, list_response
from fairwarning.arm.http.request import (
    RETRY_SECONDS,
    ArmRequest,
    Body,
    check_api_version,
    check_values,
    json_response,
)
from fairwarning.arm.http.routes import GROUP, Route
from fairwarning.arm.resources import deployment_documents
from fairwarning.arm.resources.deployment_documents import DeploymentOutcome, ResourceFailed
from fairwarning.arm.templates import relaxed_json
from fairwarning.arm.templates.names import (
    DeploymentScope,
    KnownResources,
    ReferenceNeeded,
    TemplateStep,
)
from fairwarning.arm.templates.steps import DEPLOYMENT, RESOURCES
from fairwarning.arm.templates.template import Template
from fairwarning.arm.types import documents
from fairwarning.arm.types.context import ArmContext, new_operation
from fairwarning.arm.types.names import DEPLOYMENT as KIND
from fairwarning.arm.types.resource_type import ResourceType
from fairwarning.arm.types.writing import check_name
from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.core.model import Resource
from fairwarning.service.config.settings import TENANT

T = TypeVar("T")


async def _check_template(context: ArmContext, client: str, template: Template) -> None:
    """Refuse wrong expressions and api-versions, also in nested templates, before any write."""
    count = await context.compute(client, partial(_check, context, template))
    if count > RESOURCES:
        text = f"a template may have {RESOURCES} resources with those of nested templates"
        raise Refused("InvalidTemplate", text)


def _check(context: ArmContext, template: Template) -> int:
    count = len(template.resources)
    for step in template.resources:
        if context.types.acts(step.type):
            check_api_version(
                context.types.canonical(step.type), step.version, template.scope.location
            )
        try:
            template.bodies[step.key] = template.resource(step, {})
            if step.type.lower() == DEPLOYMENT:
                count += _check(context, template.nested(step, {}))
        except ReferenceNeeded:
            continue  # known only when other resources have been deployed: checked then
    return count


class DeploymentRun:
    """Deploys a template and its nested templates, each of which is stored as a deployment."""

    def __init__(self, context: ArmContext, request: ArmRequest) -> None:
        self._context = context
        self._request = request
        self._known: dict[str, Body] = {}  # what expressions have read

    async def deploy(self, template: Template) -> DeploymentOutcome:
        """Write the resources of a template, and return how the deployment ended."""
        operations: list[Body] = []
        try:
            for step in template.resources:
                await self._write(template, step, operations)
            outputs = await self._evaluate(template.outputs)
        except FairwarningError as failure:
            return DeploymentOutcome(template, tuple(operations), failure=failure)
        return DeploymentOutcome(template, tuple(operations), outputs)

    async def _write(self, template: Template, step: TemplateStep, operations: list[Body]) -> None:
        status, error = HTTPStatus.OK.value, None
        try:
            if step.type.lower() == DEPLOYMENT:
                await self._deploy_nested(template, step)
            else:
                body = template.bodies.pop(step.key, None)
                if body is None:
                    body = await self._evaluate(lambda known: template.resource(step, known))
                status, _ = await internal.require(
                    self._request, "PUT", step.id, step.version, body=body
                )
        except FairwarningError as failure:
            status, error = errors.from_error(failure)[0], deployment_documents.error_of(failure)
            raise ResourceFailed(step, failure) from failure
        finally:
            operations.append(deployment_documents.operation(step, status, error))
        for key in [key for key in self._known if f"{key}/".startswith(f"{step.key}/")]:
            del self._known[key]  # the resource has changed: it is read again

    async def _deploy_nested(self, template: Template, step: TemplateStep) -> None:
        nested = await self._evaluate(lambda known: template.nested(step, known))
        await _check_template(self._context, self._request.actor, nested)
        check_name(step.name)
        outcome = await self.deploy(nested)
        body = {"properties": {"mode": "Incremental", "template": step.template}}
        await deployment_documents.store(self._context, self._request, step.name, body, outcome)
        if outcome.failure:
            raise outcome.failure

    async def _evaluate(self, evaluate: Callable[[KnownResources], T]) -> T:
        """Return the result of an evaluation; read the resources that it needs."""
        while True:
            try:
                call = partial(evaluate, self._known)
                return await self._context.compute(self._request.actor, call)
            except ReferenceNeeded as reference:
                self._known[reference.key] = await self._read(reference)

    async def _read(self, reference: ReferenceNeeded) -> Body:
        """Return a resource, or the answer of its list action; raise if it does not exist."""
        path, action, sent = reference.id, reference.action, reference.body
        id_ = parse_id(path)
        if id_ is None or not id_.kind:
            raise Refused("InvalidTemplate", f"'{path[:200]}' is not the id of a resource")
        version = api_versions(id_.kind)[0]
        method, path = ("POST", f"{path}/{action}") if action else ("GET", path)
        _, document = await internal.require(self._request, method, path, version, body=sent)
        return document


_VALUES = 200_000  # of a template and its parameters
_FIELDS = {
    "provisioningState": Field(lambda document: [document["properties"]["provisioningState"]])
}
"""The fields of a `$filter` of deployments."""


async def _read_body(context: ArmContext, request: ArmRequest) -> Body:
    """Return the body of a deployment: JSON, or what the Azure CLI sends with a template file."""
    raw = await request.read()
    check_values(raw, _VALUES)
    try:
        body: object = msgspec.json.decode(raw or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = await context.compute(request.actor, partial(relaxed_json.decode, raw))
    if not isinstance(body, dict):
        raise azure_error("InvalidRequestContent/no object")
    documents.tags_of(body)
    return body


async def _template(
    context: ArmContext, request: ArmRequest, group: Resource, body: Body
) -> Template:
    """Return the template of a request; raise if it is wrong anywhere."""
    properties = body.get("properties")
    if not isinstance(properties, dict):
        raise Refused("InvalidTemplate", "properties must be an object with mode and template")
    group_body = documents.stored_body(group)
    scope = DeploymentScope(
        subscription=context.cloud.subscription,
        group=group.name,
        location=str(group_body.get("location", context.cloud.location)),
        name=request.name,
        tenant=TENANT,
        endpoint=request.base_url,
        now=context.fleet.clock.now(),
        tags=group_body.get("tags", {}),
    )
    template = await context.compute(request.actor, lambda: Template(properties, scope))
    await _check_template(context, request.actor, template)
    return template


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    """Deploy a template; an error becomes the deployment's status, as Azure's tools expect."""
    check_name(request.name)
    group = await context.group(request.group)
    async with context.deploying(request):
        body = await _read_body(context, request)
        try:
            template = await _template(context, request, group, body)
        except FairwarningError as error:
            outcome = DeploymentOutcome(None, failure=error)
        else:
            outcome = await DeploymentRun(context, request).deploy(template)
        resource = await deployment_documents.store(context, request, request.name, body, outcome)
    running = deployment_documents.document(context, resource)
    running["properties"] = {**running["properties"], "provisioningState": "Running"}
    path = context.arm_id(KIND, group.name, resource.name)
    status = request.link(f"{path}/operationStatuses/{_operation(resource)}")
    headers = {"Azure-AsyncOperation": status, "Retry-After": RETRY_SECONDS}
    return json_response(running, 201, headers)


def _operation(resource: Resource) -> str:
    return str(documents.stored_body(resource)["properties"]["correlationId"])


async def _validate(context: ArmContext, request: ArmRequest) -> Response:
    group = await context.group(request.group)
    async with context.deploying(request):
        body = await _read_body(context, request)
        template = await _template(context, request, group, body)
    properties = {
        "provisioningState": "Succeeded",
        "mode": "Incremental",
        "correlationId": new_operation(),
        **deployment_documents.template_properties(template),
        "validatedResources": [{"id": step.id} for step in template.resources],
    }
    path = context.arm_id(KIND, group.name, request.name)
    return json_response({"id": path, "name": request.name, "type": KIND, "properties": properties})


async def _documents(context: ArmContext, rows: Sequence[Resource]) -> list[Body]:
    return [deployment_documents.document(context, row) for row in rows]


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    page, token = await context.page(request, KIND, request.id.group)
    return list_response(request, await _documents(context, page), token, fields=_FIELDS)


async def _status(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(KIND, request.group, request.name)
    properties: Body = documents.stored_body(resource)["properties"]
    if request.params["operation"] != _operation(resource):
        raise ArmError("NotFound", "The deployment has no such operation.", 404)
    status: Body = {"status": properties["provisioningState"]}
    if "error" in properties:
        status["error"] = properties["error"]
    return json_response(status)


async def _operations(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(KIND, request.group, request.name)
    return json_response({"value": deployment_documents.operations(context, resource)})


async def _export(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(KIND, request.group, request.name)
    template = documents.stored_body(resource).get("template")
    if template is None:
        raise azure_error("DeploymentTemplateNotAvailable", name=resource.name)
    return json_response({"template": template})


async def _what_if(_context: ArmContext, _request: ArmRequest) -> Response:
    """Say that it is not offered, as a result: of an error, the Azure CLI shows a traceback."""
    text = "What-if is not offered: deploy the template to a group of its own."
    error = {"code": "OperationNotAllowed", "message": text}
    return json_response({"status": "Failed", "error": error})


TYPE = ResourceType(
    name=KIND,
    purpose="writes the resources of a template",
    listed=False,
    patched=False,
    documents=_documents,
    put=_put,
    list=_list,
    actions={"exporttemplate": _export, "validate": _validate, "whatif": _what_if},
    views={"operations": _operations},
    refused={"cancel": "A deployment has ended when its request ends."},
)

_ITEM = f"{GROUP}/providers/{KIND}/{{name}}"
_OLD_ITEM = f"{GROUP}/deployments/{{name}}"  # where the SDKs read operations
ROUTES = (
    Route("GET", f"{_OLD_ITEM}/operations", _operations),
    Route("GET", f"{_ITEM}/operationStatuses/{{operation}}", _status),
)
