"""Template deployments: `Microsoft.Resources/deployments`, which the Azure CLI uses to create.

All resources of a template are written before the deployment is acknowledged. A crash leaves either
no deployment, which the client may send again, or a finished one.
"""

import re
from typing import NoReturn

import msgspec
from starlette.responses import Response

from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.listing import next_link
from fairwarning.arm.http.request import (
    RETRY_SECONDS,
    ArmRequest,
    Body,
    accepted,
    json_response,
    read_bytes,
)
from fairwarning.arm.http.routes import GROUP, Route
from fairwarning.arm.resources import deployment_documents
from fairwarning.arm.resources.deployment_documents import DeploymentOutcome, document
from fairwarning.arm.resources.deployment_run import (
    DeploymentRun,
    ResourceReader,
    check_template,
)
from fairwarning.arm.resources.providers import versions_of
from fairwarning.arm.templates import relaxed_json
from fairwarning.arm.templates.scope import DeploymentScope
from fairwarning.arm.templates.steps import TemplateStep
from fairwarning.arm.templates.template import Template
from fairwarning.arm.types import documents
from fairwarning.arm.types.context import ArmContext, new_operation
from fairwarning.arm.types.names import DEPLOYMENT as KIND
from fairwarning.arm.types.resource_type import ResourceType
from fairwarning.arm.types.writing import check_name
from fairwarning.core.commands import Remove
from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.core.model import Resource
from fairwarning.service.config.settings import TENANT

_FILTER = re.compile(r"provisioningState eq '(?P<state>\w{1,20})'", re.IGNORECASE)


# --- Reading a request ----------------------------------------------------------------------------


async def _read_body(request: ArmRequest) -> Body:
    """Return the body of a deployment: JSON, or what the Azure CLI sends with a template file."""
    raw = await read_bytes(request.http)
    try:
        body: object = msgspec.json.decode(raw or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = relaxed_json.decode(raw)
    if not isinstance(body, dict):
        text = "The request content was invalid and could not be deserialized: send a JSON object."
        raise ArmError("InvalidRequestContent", text)
    return body


def _template(context: ArmContext, request: ArmRequest, group: Resource, body: Body) -> Template:
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
    template = Template(
        properties, scope, lambda namespace, kind: versions_of(context.types, f"{namespace}/{kind}")
    )
    check_template(context, template)
    return template


# --- Deploying ------------------------------------------------------------------------------------


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    """Deploy a template; an error becomes the deployment's status, as Azure's tools expect."""
    check_name(request.name)
    group = await context.group(request.group)
    body = await _read_body(request)
    deployment = _Deployment(context, request)
    try:
        template = _template(context, request, group, body)
    except FairwarningError as error:
        outcome = DeploymentOutcome(None, failure=error)
    else:
        outcome = await deployment.run(template)
    resource = await deployment_documents.store(context, request, request.name, body, outcome)
    running = document(context, resource)
    running["properties"] = {**running["properties"], "provisioningState": "Running"}
    path = context.arm_id(KIND, group.name, resource.name)
    status = request.link(f"{path}/operationStatuses/{_operation(resource)}")
    headers = {"Azure-AsyncOperation": status, "Retry-After": RETRY_SECONDS}
    return json_response(running, 201, headers)


class _Deployment:
    """Runs a template and its nested deployments, each of which is stored as one of its own."""

    def __init__(self, context: ArmContext, request: ArmRequest) -> None:
        self._context = context
        self._request = request
        self._reader = ResourceReader(context, request)

    async def run(self, template: Template) -> DeploymentOutcome:
        """Deploy a template, and return how it ended."""
        run = DeploymentRun(self._context, self._request, template, self._reader, self._run_nested)
        try:
            outputs = await run.deploy()
        except FairwarningError as failure:
            return DeploymentOutcome(template, tuple(run.operations), failure=failure)
        return DeploymentOutcome(template, tuple(run.operations), outputs)

    async def _run_nested(self, template: Template, step: TemplateStep) -> None:
        check_name(step.name)
        outcome = await self.run(template)
        body = {"properties": {"mode": "Incremental", "template": step.template}}
        await deployment_documents.store(self._context, self._request, step.name, body, outcome)
        if outcome.failure:
            raise outcome.failure


def _operation(resource: Resource) -> str:
    properties: Body = documents.stored_body(resource)["properties"]
    return str(properties["correlationId"])


async def _validate(context: ArmContext, request: ArmRequest) -> Response:
    """Validate a template without deploying it."""
    group = await context.group(request.group)
    body = await _read_body(request)
    template = _template(context, request, group, body)
    properties = {
        "provisioningState": "Succeeded",
        "mode": "Incremental",
        "correlationId": new_operation(),
        "templateHash": deployment_documents.template_hash(body["properties"]["template"]),
        **deployment_documents.template_properties(context, template),
        "validatedResources": [{"id": step.id} for step in template.resources],
    }
    path = context.arm_id(KIND, group.name, request.name)
    return json_response({"id": path, "name": request.name, "type": KIND, "properties": properties})


# --- Reading --------------------------------------------------------------------------------------


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    return json_response(document(context, await context.get(KIND, request.group, request.name)))


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    state, top = _conditions(request)
    page, token = await context.page(request, KIND, request.id.group)
    value = [document(context, resource) for resource in page]
    if state:
        value = [entry for entry in value if entry["properties"]["provisioningState"] == state]
    if top:
        value, token = value[:top], ""
    return json_response({"value": value, **next_link(request, token)})


def _conditions(request: ArmRequest) -> tuple[str, int]:
    """Return the state and the number of deployments that a listing asks for; "" and 0 for all."""
    expression, top = request.query("$filter"), request.query("$top")
    match = _FILTER.fullmatch(expression.strip())
    if expression and match is None:
        text = "The $filter is not supported; use provisioningState eq 'Succeeded' or 'Failed'."
        raise ArmError("InvalidFilterInQueryString", text)
    if top and not re.fullmatch("[1-9][0-9]{0,3}", top):
        raise documents.invalid_value("$top", top, "a number from 1 to 9999")
    return (match["state"].capitalize() if match else ""), int(top or 0)


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


async def _get_operation(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(KIND, request.group, request.name)
    for operation in deployment_documents.operations(context, resource):
        if operation["operationId"].lower() == request.params["step"].lower():
            return json_response(operation)
    raise ArmError("DeploymentOperationNotFound", "The deployment has no such operation.", 404)


async def _export(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(KIND, request.group, request.name)
    template = documents.stored_body(resource).get("template")
    if template is None:
        text = f"The template of deployment '{resource.name}' was too long to store, or invalid."
        raise ArmError("DeploymentTemplateNotAvailable", text, 409)
    return json_response({"template": template})


# --- Other actions --------------------------------------------------------------------------------


async def _cancel(context: ArmContext, request: ArmRequest) -> NoReturn:
    resource = await context.get(KIND, request.group, request.name)
    state = documents.stored_body(resource)["properties"]["provisioningState"]
    text = (
        f"The deployment '{resource.name}' cannot be canceled: it has ended with state '{state}'."
    )
    raise ArmError("DeploymentCannotBeCancelled", text, 409)


async def _what_if(_context: ArmContext, _request: ArmRequest) -> Response:
    """Say that it is not offered, as a result: of an error, the Azure CLI shows a traceback."""
    text = "What-if is not offered: deploy the template to a group of its own."
    error = {"code": "OperationNotAllowed", "message": text}
    return json_response({"status": "Failed", "error": error})


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.find(KIND, request.group, request.name)
    if resource is None:
        return Response(b"", 204)
    remove = Remove(resource=resource.id, operation=new_operation(), actor=request.actor)
    return accepted(request, await context.fleet.submit(remove), context.cloud.location)


TYPE = ResourceType(
    name=KIND,
    purpose="writes the resources of a template",
    versions="resources",
    listed=False,
    patched=False,
    put=_put,
    get=_get,
    list=_list,
    remove=_delete,
    actions={
        "cancel": _cancel,
        "exporttemplate": _export,
        "validate": _validate,
        "whatif": _what_if,
    },
    views={"operations": _operations},
)

_ITEM = f"{GROUP}/providers/{KIND}/{{name}}"
_OLD_ITEM = f"{GROUP}/deployments/{{name}}"  # where the SDKs read operations
ROUTES = (
    Route("GET", f"{_ITEM}/operations/{{step}}", _get_operation),
    Route("GET", f"{_OLD_ITEM}/operations", _operations),
    Route("GET", f"{_OLD_ITEM}/operations/{{step}}", _get_operation),
    Route("GET", f"{_ITEM}/operationStatuses/{{operation}}", _status),
)
