"""Scale sets."""

from fairwarning.console.api import bodies, responses, views
from fairwarning.console.api.machines import ACTIONS, OF_A_SET, MachinesApi
from fairwarning.console.api.part import OPERATOR, PAGE, Settings, name_of, one_of, read
from fairwarning.core import commands
from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import ScaleSet, Scope
from fairwarning.service.config import fleet_file
from fairwarning.service.config.values import MODEL, FleetFileError, table


class ScaleSetsApi(MachinesApi):
    """Scale sets, their models and instances."""

    async def sets(self, after: str = "", limit: int = PAGE) -> responses.ScaleSetList:
        """Scale sets in order of their names."""
        names = await self.fleet.reader.list_ids(ScaleSet, after, limit)
        shown = [
            await self._set(found)
            for name in names
            if (found := await self.fleet.reader.read(ScaleSet, name))
        ]
        return responses.ScaleSetList(sets=shown, next=names[-1] if len(names) == limit else None)

    async def set(self, name: str) -> responses.ScaleSetInfo:
        """One scale set."""
        return await self._set(await self._known(name))

    async def _known(self, name: str) -> ScaleSet:
        found = await self.fleet.reader.read(ScaleSet, name)
        if found is None:
            raise NotFound("UnknownSet", f"there is no scale set {name[:60]!r}")
        return found

    async def _done_before(self, name: str, key: str) -> responses.AcceptedOperation | None:
        found = await self.fleet.reader.read(ScaleSet, name)
        return await self._repeat(key, found.groups if found else ())

    async def _set(self, found: ScaleSet) -> responses.ScaleSetInfo:
        groups = [await self.fleet.reader.read(Scope, group) for group in found.groups]
        return views.scale_set(found, [group for group in groups if group])

    async def create_set(
        self, settings: Settings, key: str = "", actor: str = OPERATOR
    ) -> responses.ScaleSetInfo:
        """A scale set with its first instances (T8)."""
        entry = bodies.given(read(bodies.NewSet, settings))
        if entry["terminate_notice"] is None:
            del entry["terminate_notice"]
        await self._create(fleet_file.entry("scale_set", entry), key, actor)
        return await self.set(entry["name"])

    async def update_set(
        self, name: str, settings: Settings, actor: str = OPERATOR
    ) -> responses.ScaleSetInfo:
        """Another model; it changes no event that exists (T3)."""
        await self._known(name)
        given = bodies.given(read(bodies.SetChanges, settings))
        none = given.get("terminate_notice", "") is None
        try:
            model = table({key: value for key, value in given.items() if value is not None}, MODEL)
        except FleetFileError as wrong:
            raise Refused("BadBody", wrong.message) from None
        notice = 0 if none else model.pop("terminate_notice", None)
        command = commands.UpdateSet(set=name, terminate_seconds=notice, actor=actor, **model)
        await self.fleet.submit(command)
        return await self.set(name)

    async def scale_set(
        self, name: str, settings: Settings, key: str = "", actor: str = OPERATOR
    ) -> responses.AcceptedOperation:
        """So many instances from now on; those that leave get their notice."""
        if done := await self._done_before(name, key):
            return done
        groups = (await self._known(name)).groups
        capacity = read(bodies.Capacity, settings).capacity
        command = commands.Scale(set=name, operation=name_of(key), capacity=capacity, actor=actor)
        return await self._accept(command, groups)

    async def upgrade_set(
        self, name: str, settings: Settings, actor: str = OPERATOR
    ) -> responses.ScaleSetInfo:
        """Bring instances to the present model (T3)."""
        await self._known(name)
        instances = _instances(settings)
        await self.fleet.submit(
            commands.UpgradeInstances(set=name, instances=instances, actor=actor)
        )
        return await self.set(name)

    async def act_on_set(
        self, name: str, action: str, settings: Settings, key: str = "", actor: str = OPERATOR
    ) -> responses.AcceptedOperation:
        """Let something happen to instances of a set, each with its notice."""
        if done := await self._done_before(name, key):
            return done
        groups = (await self._known(name)).groups
        kind = one_of(action, {word: ACTIONS[word] for word in OF_A_SET}, "action")
        instances = _instances(settings)
        if action == "delete" and instances is None:
            raise Refused("BadBody", "name the instances to delete; DELETE deletes the whole set")
        command = commands.OperateInstances(
            set=name, operation=name_of(key), action=kind, instances=instances, actor=actor
        )
        return await self._accept(command, groups)

    async def delete_set(
        self, name: str, key: str = "", actor: str = OPERATOR
    ) -> responses.AcceptedOperation:
        """The whole set goes, each instance with its notice."""
        if done := await self._done_before(name, key):
            return done
        groups = (await self._known(name)).groups
        command = commands.DeleteSet(set=name, operation=name_of(key), actor=actor)
        return await self._accept(command, groups)


def _instances(settings: Settings) -> tuple[int, ...] | None:
    given = bodies.given(read(bodies.Instances, settings))
    return tuple(given["instances"]) if "instances" in given else None
