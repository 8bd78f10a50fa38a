"""Scale sets."""

from msgspec import UNSET

from fairwarning.console.api import bodies, responses, views
from fairwarning.console.api.endpoints import NEXT_PAGE, endpoint
from fairwarning.console.api.machines import ACTIONS, SET_ACTIONS, MachinesApi
from fairwarning.console.api.section import (
    OPERATOR,
    PAGE_SIZE,
    choose,
    created_events,
    decide,
    operation_id,
    request_text,
)
from fairwarning.core import commands
from fairwarning.core.configuration import ConfigurationError, table
from fairwarning.core.errors import Refused
from fairwarning.core.model import EventStatus, ImpactKind, ScaleSet, Scope
from fairwarning.core.record import changed
from fairwarning.service.config import fleet_file
from fairwarning.service.config.values import MODEL

_NAMED = 10  # instances of a plan


class ScaleSetsApi(MachinesApi):
    """Scale sets, with their models and instances."""

    @endpoint("GET", "/api/sets", query=NEXT_PAGE)
    async def sets(self, after: str = "", limit: int = PAGE_SIZE) -> responses.ScaleSetList:
        """List scale sets by name."""
        names = await self.fleet.reader.list_ids(ScaleSet, after, limit)
        sets = [
            await self._set_info(scale_set)
            for name in names
            if (scale_set := await self.fleet.reader.read(ScaleSet, name))
        ]
        return responses.ScaleSetList(sets=sets, next=names[-1] if len(names) == limit else None)

    async def _repeated_on_set(
        self, name: str, key: str, request: str
    ) -> responses.AcceptedOperation | None:
        scale_set = await self.fleet.reader.read(ScaleSet, name)
        return await self._repeated(key, request, scale_set.groups if scale_set else ())

    async def _set_info(self, scale_set: ScaleSet) -> responses.ScaleSetInfo:
        groups = [await self.fleet.reader.read(Scope, group) for group in scale_set.groups]
        return views.scale_set_info(scale_set, [group for group in groups if group])

    @endpoint("POST", "/api/sets", status=201)
    async def create_set(
        self, body: bodies.NewSet, key: str = "", actor: str = OPERATOR
    ) -> responses.ScaleSetInfo:
        """Create a scale set.

        Its instances have the termination notice of its model (T8).
        """
        entry = bodies.set_fields(body)
        if entry["terminate_notice"] is None:
            del entry["terminate_notice"]
        request = request_text("create set", body)
        await self._create(fleet_file.entry("scale_set", entry), key, request, actor)
        return await self.set(body.name)

    @endpoint("GET", "/api/sets/{name}")
    async def set(self, name: str) -> responses.ScaleSetInfo:
        """Get a scale set."""
        return await self._set_info(await self._scale_set(name))

    @endpoint("PATCH", "/api/sets/{name}")
    async def update_set(
        self, name: str, body: bodies.SetChanges, actor: str = OPERATOR
    ) -> responses.ScaleSetInfo:
        """Change a scale set's model.

        Existing events stay as they are (T3).
        """
        await self._scale_set(name)
        changes = bodies.set_fields(body)
        notice_off = changes.get("terminate_notice", "") is None
        try:
            model = table(
                {key: value for key, value in changes.items() if value is not None}, MODEL
            )
        except ConfigurationError as error:
            raise Refused("BadBody", error.message) from None
        notice = 0 if notice_off else model.pop("terminate_notice", None)
        command = commands.UpdateSet(set=name, terminate_seconds=notice, actor=actor, **model)
        await self.fleet.submit(command)
        return await self.set(name)

    @endpoint("POST", "/api/sets/{name}/scale", status=202)
    async def scale_set(
        self, name: str, body: bodies.Capacity, key: str = "", actor: str = OPERATOR
    ) -> responses.AcceptedOperation:
        """Set the number of instances.

        Instances that are deleted get their notice first.
        """
        request = request_text(f"scale set {name}", body)
        if repeated := await self._repeated_on_set(name, key, request):
            return repeated
        groups = (await self._scale_set(name)).groups
        command = commands.Scale(
            set=name, operation=operation_id(key), capacity=body.capacity, actor=actor
        )
        return await self._submit(changed(command, request=request), groups)

    @endpoint("POST", "/api/sets/{name}/scale/plan")
    async def plan_scale(self, name: str, body: bodies.Capacity) -> responses.ScalePlan:
        """Plan a change of the number of instances without starting it."""
        await self._scale_set(name)
        command = commands.Scale(set=name, operation=operation_id(""), capacity=body.capacity)
        now = self.fleet.clock.now()
        outcome = await decide(self.fleet, command, now)
        at_once = [each.machine for each in outcome.impacts if each.kind is ImpactKind.DELETE]
        scheduled = [
            event
            for event in created_events(outcome)
            if event.status is EventStatus.SCHEDULED and event.impact is ImpactKind.DELETE
        ]
        announced = [name for event in scheduled for name in event.resources]
        notices = [int(event.not_before - now) for event in scheduled]
        return responses.ScalePlan(
            set=command.set,
            capacity=command.capacity,
            deleted=len(at_once) + len(announced),
            without_notice=len(at_once),
            notice_seconds=min(notices, default=None),
            instances=[*at_once, *announced][:_NAMED],
        )

    @endpoint("POST", "/api/sets/{name}/upgrade")
    async def upgrade_set(
        self, name: str, body: bodies.Instances, actor: str = OPERATOR
    ) -> responses.ScaleSetInfo:
        """Upgrade instances to the latest model.

        Other instances keep the model that they have (T3).
        """
        await self._scale_set(name)
        instances = _instances(body)
        await self.fleet.submit(
            commands.UpgradeInstances(set=name, instances=instances, actor=actor)
        )
        return await self.set(name)

    @endpoint("POST", "/api/sets/{name}/{action}", status=202, action=SET_ACTIONS)
    async def act_on_set(
        self, name: str, action: str, body: bodies.Instances, key: str = "", actor: str = OPERATOR
    ) -> responses.AcceptedOperation:
        """Start an action on instances of a scale set."""
        request = request_text(f"{action} instances of set {name}", body)
        if repeated := await self._repeated_on_set(name, key, request):
            return repeated
        groups = (await self._scale_set(name)).groups
        kind = choose(action, {name: ACTIONS[name] for name in SET_ACTIONS}, "action")
        instances = _instances(body)
        if action == "delete" and instances is None:
            raise Refused("BadBody", "name the instances to delete; DELETE deletes the whole set")
        command = commands.OperateInstances(
            set=name, operation=operation_id(key), action=kind, instances=instances, actor=actor
        )
        return await self._submit(changed(command, request=request), groups)

    @endpoint("DELETE", "/api/sets/{name}", status=202)
    async def delete_set(
        self, name: str, key: str = "", actor: str = OPERATOR
    ) -> responses.AcceptedOperation:
        """Delete a scale set; each instance gets its notice first."""
        request = f"delete set {name}"
        if repeated := await self._repeated_on_set(name, key, request):
            return repeated
        groups = (await self._scale_set(name)).groups
        command = commands.DeleteSet(set=name, operation=operation_id(key), actor=actor)
        return await self._submit(changed(command, request=request), groups)


def _instances(body: bodies.Instances) -> tuple[int, ...] | None:
    return None if body.instances is UNSET else tuple(body.instances)
