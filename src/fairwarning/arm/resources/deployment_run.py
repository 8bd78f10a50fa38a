"""Running a deployment: its resources are written one after the other, by requests of their own."""

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import TypeVar

from fairwarning.arm.catalogue import api_versions
from fairwarning.arm.http import errors, internal
from fairwarning.arm.http.azure_id import parse_id
from fairwarning.arm.http.request import ArmRequest, Body, check_api_version
from fairwarning.arm.resources import deployment_documents
from fairwarning.arm.resources.deployment_documents import (
    DeploymentOutcome,
    ResourceFailed,
    error_of,
)
from fairwarning.arm.templates.declarations import DEPLOYMENT
from fairwarning.arm.templates.names import KnownResources, ReferenceNeeded
from fairwarning.arm.templates.step_builder import RESOURCES
from fairwarning.arm.templates.steps import TemplateStep
from fairwarning.arm.templates.template import Template
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.writing import check_name
from fairwarning.core.errors import FairwarningError, Refused

T = TypeVar("T")


async def check_template(context: ArmContext, template: Template) -> None:
    """Refuse wrong expressions and api-versions, also in nested templates, before any write."""
    count = await context.compute(partial(_check, context, template))
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
            template.resource(step, {})
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
                body = await self._evaluate(lambda known: template.resource(step, known))
                status, _ = await internal.require(
                    self._request, "PUT", step.id, step.version, body=body
                )
        except FairwarningError as failure:
            status, error = errors.from_error(failure)[0], error_of(failure)
            raise ResourceFailed(step, failure) from failure
        finally:
            operations.append(deployment_documents.operation(step, status, error))
        self._forget(step.id)

    async def _deploy_nested(self, template: Template, step: TemplateStep) -> None:
        nested = await self._evaluate(lambda known: template.nested(step, known))
        await check_template(self._context, nested)
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
                return await self._context.compute(partial(evaluate, self._known))
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

    def _forget(self, path: str) -> None:
        """Read this resource again when it is needed next: it has changed."""
        for key in [key for key in self._known if f"{key}/".startswith(f"{path.lower()}/")]:
            del self._known[key]
