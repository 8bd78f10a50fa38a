"""The documents of a deployment and of its operations, and what of them is stored."""

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from http import HTTPStatus
from typing import Any

import msgspec

from fairwarning.arm.http.request import ArmRequest, Body
from fairwarning.arm.resources.deployment_run import ResourceOperation, error_of, is_stored
from fairwarning.arm.templates.steps import TemplateStep
from fairwarning.arm.templates.template import Template
from fairwarning.arm.types import documents
from fairwarning.arm.types import stored as stored_types
from fairwarning.arm.types.context import ArmContext, new_operation
from fairwarning.arm.types.names import DEPLOYMENT as KIND
from fairwarning.arm.types.resource_type import DesiredResource
from fairwarning.arm.types.writing import ResourceWrite, write_resource
from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import Resource
from fairwarning.core.times import iso

_HIDDEN = frozenset({"template", "operations"})
"""Members of the stored body that other requests than GET return."""
_TOO_LONG = {
    "code": "DeploymentFailed",
    "message": "The outputs are too long to store; all resources were deployed.",
}


@dataclass(frozen=True)
class DeploymentOutcome:
    """How a deployment ended: with outputs, or with an error."""

    template: Template | None
    operations: tuple[ResourceOperation, ...] = ()
    outputs: Body = field(default_factory=dict)
    failure: FairwarningError | None = None


# --- Storing --------------------------------------------------------------------------------------


async def store(
    context: ArmContext, request: ArmRequest, name: str, body: Body, outcome: DeploymentOutcome
) -> Resource:
    """Store the outcome of a deployment, without secrets."""
    stored = _stored(context, body, outcome)

    async def plan(_: ResourceWrite, __: Body) -> DesiredResource:
        return DesiredResource(stored)

    id_ = replace(request.id, name=name)
    write = ResourceWrite(context, id_, {}, request.version, request.actor)
    return (await write_resource(write, plan)).resource


def _stored(context: ArmContext, body: Body, outcome: DeploymentOutcome) -> Body:
    sent: Body = body["properties"] if isinstance(body.get("properties"), dict) else {}
    mode = sent.get("mode")
    properties: Body = {
        "mode": "Incremental" if not isinstance(mode, str) else mode[:20].capitalize(),
        "timestamp": iso(int(context.fleet.clock.now())),
        "correlationId": new_operation(),
        "duration": "PT0S",
        "templateHash": template_hash(sent.get("template")),
        "provisioningState": "Failed" if outcome.failure else "Succeeded",
    }
    if outcome.failure:
        properties["error"] = error_of(outcome.failure)
    if outcome.template:
        properties |= template_properties(context, outcome.template)
    if outcome.template and not outcome.failure:
        properties["outputs"] = outcome.outputs
        properties["outputResources"] = [{"id": step.id} for step in outcome.template.resources]
    if stored_only := _stored_only(context, outcome.template):
        properties["diagnostics"] = stored_only
    tags = {"tags": documents.tags_of(body)} if body.get("tags") else {}
    return _shortened(
        {
            **tags,
            "properties": properties,
            "operations": [asdict(operation) for operation in outcome.operations],
            "template": _without_secrets(sent.get("template")),
        }
    )


def _stored_only(context: ArmContext, template: Template | None) -> list[Body]:
    """Return a warning for each type of a template that nothing acts on (C8)."""
    steps = template.resources if template else ()
    kinds = dict.fromkeys(step.type for step in steps if is_stored(context, step.type))
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
    kept = ("mode", "timestamp", "correlationId", "duration", "templateHash")
    properties = {key: stored["properties"][key] for key in kept}
    return {"properties": {**properties, **failed}, "operations": []}


def template_hash(template: object) -> str:
    """Return a number of 20 digits at most that is the same for equal templates."""
    try:
        encoded = msgspec.json.encode(template, order="deterministic")
    except (TypeError, RecursionError, OverflowError):
        encoded = b""
    return str(int.from_bytes(hashlib.sha256(encoded).digest()[:8]))


def _without_secrets(value: Any, name: str = "", depth: int = 0) -> Any:  # noqa: ANN401  (any JSON)
    """Return the template without default values of secure parameters and literal secrets."""
    if isinstance(value, dict) and depth <= _LEVELS:
        secure = str(value.get("type")).lower().startswith("secure")
        return {
            key: _without_secrets(part, key, depth + 1)
            for key, part in value.items()
            if not (secure and key in {"defaultValue", "value", "allowedValues"})
            and not (documents.is_secret(key) and isinstance(part, str) and part[:1] != "[")
        }
    if isinstance(value, list) and depth <= _LEVELS:
        return [_without_secrets(part, name, depth + 1) for part in value]
    return None if isinstance(value, dict | list) else value


_LEVELS = 100


# --- Documents ------------------------------------------------------------------------------------


def template_properties(context: ArmContext, template: Template) -> Body:
    """Return what a deployment says of its template: parameters, dependencies and providers."""
    return {
        "parameters": template.parameters(),
        "dependencies": [
            {**_target(step), "dependsOn": [*map(_target, template.dependencies[step.key])]}
            for step in template.resources
            if step.key in template.dependencies
        ],
        "providers": _providers(context, template.resources),
    }


def _target(resource: TemplateStep | ResourceOperation) -> Body:
    return {
        "id": resource.id,
        "resourceType": resource.type,
        "resourceName": resource.name,
    }


def _providers(context: ArmContext, steps: Iterable[TemplateStep]) -> list[Body]:
    types: dict[str, dict[str, Body]] = {}
    for step in steps:
        namespace, _, kind = step.type.partition("/")
        locations = [context.cloud.location]
        entry = {"resourceType": kind, "locations": locations}
        types.setdefault(namespace, {}).setdefault(kind.lower(), entry)
    return [
        {"namespace": namespace, "resourceTypes": [*kinds.values()]}
        for namespace, kinds in types.items()
    ]


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
    entries = [_operation(properties, entry) for entry in body.get("operations", [])]
    if properties.get("outputs"):
        done = {"provisioningOperation": "EvaluateDeploymentOutput", "statusCode": "OK"}
        entries.append({**_operation_state(properties, "Succeeded"), **done})
    path = context.arm_id(KIND, resource.group, resource.name)
    seed = f"{properties['correlationId']}"
    return [
        {
            "id": f"{path}/operations/{_operation_id(seed, number)}",
            "operationId": _operation_id(seed, number),
            "properties": entry,
        }
        for number, entry in enumerate(entries)
    ]


def _operation_id(seed: str, number: int) -> str:
    return hashlib.sha256(f"{seed}/{number}".encode()).hexdigest()[:16].upper()


def _operation(properties: Body, entry: Body) -> Body:
    status = HTTPStatus(entry["status"])
    failed = entry.get("error")
    operation = {
        "provisioningOperation": "Create",
        **_operation_state(properties, "Failed" if failed else "Succeeded"),
        "statusCode": status.phrase.replace(" ", ""),
        "targetResource": {
            "id": entry["id"],
            "resourceType": entry["type"],
            "resourceName": entry["name"],
        },
    }
    return {**operation, "statusMessage": {"error": failed}} if failed else operation


def _operation_state(properties: Body, state: str) -> Body:
    return {
        "provisioningState": state,
        "timestamp": properties["timestamp"],
        "duration": "PT0S",
        "trackingId": properties["correlationId"],
    }
