"""The documents of a deployment and of its operations, and what of them is stored."""

import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from fairwarning.arm.http import errors
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body
from fairwarning.arm.templates.names import TemplateStep
from fairwarning.arm.templates.template import Template
from fairwarning.arm.turns import pause
from fairwarning.arm.types import documents
from fairwarning.arm.types import stored as stored_types
from fairwarning.arm.types.context import ArmContext, new_operation
from fairwarning.arm.types.names import DEPLOYMENT as KIND
from fairwarning.arm.types.resource_type import DesiredResource
from fairwarning.arm.types.writing import ResourceWrite, write_resource
from fairwarning.core.commands import Remove
from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.core.model import Resource, guid
from fairwarning.core.times import iso
from fairwarning.service import resources

log = logging.getLogger(__name__)

DEPLOYMENTS_MAX = 800
"""Deployments of a group, as on Azure; the oldest are removed."""
_HIDDEN = frozenset({"template", "operations"})
"""Members of the stored body that other requests than GET return."""
_LEVELS = 100  # of a template, without its secrets
_TOO_LONG = {
    "code": "DeploymentFailed",
    "message": "The outputs are too long to store; all resources were deployed.",
}
_FAILED = (
    "At least one resource deployment operation failed. Please list deployment operations for "
    "details. Please see https://aka.ms/arm-deployment-operations for usage details."
)


class ResourceFailed(ArmError):
    """A resource of a deployment could not be written."""

    def __init__(self, step: TemplateStep, error: FairwarningError) -> None:
        super().__init__("DeploymentFailed", _FAILED, 409)
        self.details = [{**error_of(error), "target": step.id}]


def error_of(error: FairwarningError) -> Body:
    """Return the code and message of an error, and its details if it has some."""
    _, body = errors.from_error(error)
    reason: Body = dict(body["error"])  # type: ignore[call-overload]  # an error is an object
    return {**reason, "details": error.details} if isinstance(error, ResourceFailed) else reason


@dataclass(frozen=True)
class DeploymentOutcome:
    """How a deployment ended: with outputs, or with an error."""

    template: Template | None
    operations: tuple[Body, ...] = ()
    outputs: Body = field(default_factory=dict)
    failure: FairwarningError | None = None


async def store(
    context: ArmContext, request: ArmRequest, name: str, body: Body, outcome: DeploymentOutcome
) -> Resource:
    """Store the outcome of a deployment, without secrets."""
    described = _described(context, body, outcome)
    stored = await context.compute(
        request.actor,
        lambda: _shortened({**described, "template": _without_secrets(described["template"])}),
    )

    async def plan(_: ResourceWrite, __: Body) -> DesiredResource:
        return DesiredResource(stored)

    id_ = replace(request.id, name=name)
    write = ResourceWrite(context, id_, {}, request.version, request.actor)
    written = await write_resource(write, plan)
    try:
        with context.fleet.reader.share.elsewhere():  # reads go on
            await _remove_oldest(context, request)
    except FairwarningError as error:
        log.warning("old deployments of %s were not removed: %s", request.group, error)
    return written.resource


async def _remove_oldest(context: ArmContext, request: ArmRequest) -> None:
    """Remove the oldest deployments of a group that has more than it may have."""
    prefix = resources.id_prefix(KIND, request.group)
    ids = await context.fleet.reader.list_ids(Resource, prefix, DEPLOYMENTS_MAX + 1)
    if len(ids) <= DEPLOYMENTS_MAX or not ids[-1].startswith(prefix):
        return
    times: list[tuple[float, str]] = []
    for id_ in ids:  # one by one: their documents are long
        row = await context.fleet.reader.read(Resource, id_)
        times.append((row.written_at if row else 0.0, id_))
    for _, id_ in sorted(times)[: DEPLOYMENTS_MAX // 10]:
        remove = Remove(resource=id_, operation=new_operation(), actor=request.actor)
        with suppress(Refused):  # another request has removed it
            await context.fleet.submit(remove)


def _described(context: ArmContext, body: Body, outcome: DeploymentOutcome) -> Body:
    sent: Body = body["properties"] if isinstance(body.get("properties"), dict) else {}
    mode = sent.get("mode")
    properties: Body = {
        "mode": "Incremental" if not isinstance(mode, str) else mode[:20].capitalize(),
        "timestamp": iso(int(context.fleet.clock.now())),
        "correlationId": new_operation(),
        "duration": "PT0S",
        "provisioningState": "Failed" if outcome.failure else "Succeeded",
    }
    if outcome.failure:
        properties["error"] = error_of(outcome.failure)
    if outcome.template:
        properties |= template_properties(outcome.template)
    if outcome.template and not outcome.failure:
        properties["outputs"] = outcome.outputs
        properties["outputResources"] = [{"id": step.id} for step in outcome.template.resources]
    if stored_only := _stored_only(context, outcome.template):
        properties["diagnostics"] = stored_only
    described = {
        "properties": properties,
        "operations": outcome.operations,
        "template": sent.get("template"),
    }
    return {"tags": documents.tags_of(body), **described} if body.get("tags") else described


def _stored_only(context: ArmContext, template: Template | None) -> list[Body]:
    """Return a warning for each type of a template that nothing acts on (C8)."""
    steps = template.resources if template else ()
    kinds = dict.fromkeys(step.type for step in steps if not context.types.acts(step.type))
    return [
        {"level": "Warning", "code": "StoredOnly", "message": stored_types.note(kind)}
        for kind in kinds
    ]


def _shortened(stored: Body) -> Body:
    """Return what can be stored: without the template or the outputs if they are too long."""
    if documents.fits(stored):
        return stored
    stored.pop("template")
    if documents.fits(stored):
        return stored
    failed = {"provisioningState": "Failed", "error": _TOO_LONG}
    kept = ("mode", "timestamp", "correlationId", "duration")
    properties = {key: stored["properties"][key] for key in kept}
    return {"properties": {**properties, **failed}, "operations": []}


def _without_secrets(value: Any, depth: int = 0) -> Any:  # noqa: ANN401  (any JSON)
    """Return the template without default values of secure parameters and literal secrets."""
    pause()
    if isinstance(value, dict) and depth <= _LEVELS:
        secure = str(value.get("type")).lower().startswith("secure")
        return {
            key: _without_secrets(part, depth + 1)
            for key, part in value.items()
            if not (secure and key in {"defaultValue", "value", "allowedValues"})
            and not (documents.is_secret(key) and isinstance(part, str) and part[:1] != "[")
        }
    if isinstance(value, list) and depth <= _LEVELS:
        return [_without_secrets(part, depth + 1) for part in value]
    return None if isinstance(value, dict | list) else value


def template_properties(template: Template) -> Body:
    """Return what a deployment says of its template; Ansible reads the dependencies."""
    return {
        "parameters": template.parameters(),
        "dependencies": [
            {**_target(step), "dependsOn": [*map(_target, template.dependencies[step.key])]}
            for step in template.resources
            if step.key in template.dependencies
        ],
    }


def _target(step: TemplateStep) -> Body:
    return {"id": step.id, "resourceType": step.type, "resourceName": step.name}


def document(context: ArmContext, resource: Resource) -> Body:
    """Return a deployment in Azure's form."""
    body = documents.stored_body(resource)
    return {
        "id": context.arm_id(KIND, resource.group, resource.name),
        "name": resource.name,
        "type": KIND,
        **{key: part for key, part in body.items() if key not in _HIDDEN},
    }


def operations(context: ArmContext, resource: Resource) -> list[Body]:
    """Return one operation for each resource of a deployment, and one for its outputs."""
    body = documents.stored_body(resource)
    properties = body["properties"]
    entries: list[Body] = body["operations"]
    if properties.get("outputs"):
        done = {"provisioningOperation": "EvaluateDeploymentOutput", "statusCode": "OK"}
        entries.append({**done, "provisioningState": "Succeeded"})
    path = context.arm_id(KIND, resource.group, resource.name)
    tracking = properties["correlationId"]
    common = {"timestamp": properties["timestamp"], "duration": "PT0S", "trackingId": tracking}
    ids = [guid(tracking, str(number)).replace("-", "")[:16] for number in range(len(entries))]
    return [
        {"id": f"{path}/operations/{id_}", "operationId": id_, "properties": {**entry, **common}}
        for id_, entry in zip(ids, entries, strict=True)
    ]


def operation(step: TemplateStep, status: int, error: Body | None) -> Body:
    """Return the properties of the write of one resource."""
    return {
        "provisioningOperation": "Create",
        "provisioningState": "Failed" if error else "Succeeded",
        "statusCode": HTTPStatus(status).phrase.replace(" ", ""),
        "targetResource": _target(step),
        **({"statusMessage": {"error": error}} if error else {}),
    }
