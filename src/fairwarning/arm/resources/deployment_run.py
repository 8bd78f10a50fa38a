"""Running a deployment: its resources are written one after the other, by requests of their own."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from fairwarning.arm.http import errors, internal
from fairwarning.arm.http.api_versions import check_api_version
from fairwarning.arm.http.azure_id import parse_id
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body
from fairwarning.arm.resources.providers import versions_of
from fairwarning.arm.templates.declarations import DEPLOYMENT
from fairwarning.arm.templates.names import KnownResources, ReferenceNeeded
from fairwarning.arm.templates.step_builder import RESOURCES
from fairwarning.arm.templates.steps import TemplateStep
from fairwarning.arm.templates.template import Template
from fairwarning.arm.types.context import ArmContext
from fairwarning.core.errors import FairwarningError, Refused

T = TypeVar("T")
_FAILED = (
    "At least one resource deployment operation failed. Please list deployment operations for "
    "details. Please see https://aka.ms/arm-deployment-operations for usage details."
)


@dataclass(frozen=True)
class ResourceOperation:
    """The write of one resource, for the list of a deployment's operations."""

    id: str
    type: str
    name: str
    status: int
    error: Body | None = None


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


class ResourceReader:
    """Reads the resources that expressions refer to, each once."""

    def __init__(self, context: ArmContext, request: ArmRequest) -> None:
        self._context = context
        self._request = request
        self._known: dict[str, Body] = {}

    async def evaluate(self, evaluate: Callable[[KnownResources], T]) -> T:
        """Return the result of an evaluation; read the resources that it needs."""
        while True:
            try:
                return evaluate(self._known)
            except ReferenceNeeded as reference:
                self._known[reference.key] = await self._read(reference)

    async def _read(self, reference: ReferenceNeeded) -> Body:
        """Return a resource, or the answer of its list action; raise if it does not exist."""
        path = reference.id
        id_ = parse_id(path)
        if id_ is None or not id_.kind:
            raise Refused("InvalidTemplate", f"'{path[:200]}' is not the id of a resource")
        version = versions_of(self._context.types, id_.kind)[0]
        if not reference.action:
            return await internal.require(self._request, "GET", path, version)
        path = f"{path}/{reference.action}"
        return await internal.require(self._request, "POST", path, version, body=reference.body)

    def forget(self, path: str) -> None:
        """Read this resource again when it is needed next: it has changed."""
        for key in [key for key in self._known if f"{key}/".startswith(f"{path.lower()}/")]:
            del self._known[key]


# --- Checking -------------------------------------------------------------------------------------


def check_template(context: ArmContext, template: Template) -> None:
    """Refuse wrong expressions and api-versions, also in nested templates, before any write."""
    count = _check(context, template)
    if count > RESOURCES:
        text = f"a template may have {RESOURCES} resources with those of nested templates"
        raise Refused("InvalidTemplate", text)


def _check(context: ArmContext, template: Template) -> int:
    count = len(template.resources)
    for step in template.resources:
        if not is_stored(context, step.type):
            check_api_version(
                context.types.canonical(step.type), step.version, template.scope.location
            )
        try:
            template.resource(step, {})
            if step.type.lower() == DEPLOYMENT:
                count += _check(context, template.nested(step, {}))
        except ReferenceNeeded:  # known only when other resources have been deployed
            template.check_nested(step)
    return count


def is_stored(context: ArmContext, kind: str) -> bool:
    """Whether resources of a type are only stored (C8)."""
    return context.types.get(kind) is None and context.types.nested(kind) is None


# --- Deploying ------------------------------------------------------------------------------------

NestedDeployment = Callable[[Template, TemplateStep], Awaitable[None]]
"""Deploys a nested template and stores its deployment; raises if it fails."""


class DeploymentRun:
    """Deploys the resources of a template."""

    def __init__(
        self,
        context: ArmContext,
        request: ArmRequest,
        template: Template,
        reader: ResourceReader,
        nested: NestedDeployment,
    ) -> None:
        self.template = template
        self.operations: list[ResourceOperation] = []
        self._context = context
        self._request = request
        self._reader = reader
        self._nested = nested

    async def deploy(self) -> Body:
        """Write the resources of the template, and return its outputs."""
        for step in self.template.resources:
            try:
                status = await self._deploy(step)
            except FairwarningError as error:
                failed = errors.from_error(error)[0]
                self._record(step, failed, error_of(error))
                raise ResourceFailed(step, error) from error
            self._record(step, status)
            self._reader.forget(step.id)
        return await self._reader.evaluate(self.template.outputs)

    async def _deploy(self, step: TemplateStep) -> int:
        if step.type.lower() == DEPLOYMENT:
            nested = await self._reader.evaluate(lambda known: self.template.nested(step, known))
            check_template(self._context, nested)
            await self._nested(nested, step)
            return HTTPStatus.OK
        body = await self._reader.evaluate(lambda known: self.template.resource(step, known))
        status, document = await internal.call(self._request, "PUT", step.id, step.version, body)
        if status >= HTTPStatus.BAD_REQUEST:
            raise ArmError(document["error"]["code"], document["error"]["message"], status)
        return status

    def _record(self, step: TemplateStep, status: int, error: Body | None = None) -> None:
        operation = ResourceOperation(step.id, step.type, step.name, status, error)
        self.operations.append(operation)
