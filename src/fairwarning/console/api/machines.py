"""Machines, and what happens to them."""

from collections.abc import Mapping
from math import ceil

from fairwarning.console.api import bodies, responses, views
from fairwarning.console.api.part import (
    OPERATOR,
    PAGE,
    ApiSection,
    Settings,
    name_of,
    one_of,
    read,
    work,
)
from fairwarning.core import commands, limits
from fairwarning.core.commands import Command, Operate
from fairwarning.core.errors import Conflict, NotFound, Refused
from fairwarning.core.model import ScaleSet, Scope
from fairwarning.core.record import changed
from fairwarning.service import resources
from fairwarning.service.config import fleet_file
from fairwarning.service.history import queries
from fairwarning.service.lookup import find_machine

_DAY_SECONDS = 24 * 3600

ACTIONS: Mapping[str, type[Operate]] = {
    "restart": commands.Restart,
    "redeploy": commands.Redeploy,
    "reimage": commands.Reimage,
    "stop": commands.Stop,
    "deallocate": commands.Deallocate,
    "start": commands.Start,
    "delete": commands.Delete,
    "evict": commands.Evict,
    "recommend": commands.Recommend,
    "fail": commands.Fail,
    "freeze": commands.Maintain,
    "maintain": commands.Maintain,
    "migrate": commands.Maintain,
    "degrade": commands.Degrade,
}
"""What happens to a machine, by the words of the API."""

OF_A_SET = tuple(word for word, kind in ACTIONS.items() if kind in commands.OF_A_SET)
"""Those that go through the set when they happen to one of its instances."""

_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "freeze": ("duration_seconds",),
    "maintain": ("kind", "duration_seconds"),
    "migrate": ("duration_seconds",),
    "degrade": ("days",),
}


class MachinesApi(ApiSection):
    """Machines and scopes."""

    async def machines(
        self, after: int = 0, limit: int = PAGE, scope: str = "", set_: str = ""
    ) -> responses.MachineList:
        """Machines in order of their numbers; of one scope or set, if given."""
        if scope and set_:
            raise Refused("BadQuery", "say either scope or set")
        if scope or set_:
            return responses.MachineList(machines=await self._members(scope, set_), next=None)
        places = await self.fleet.reader.list_machines(after, limit)
        shown = await self._shown(places)
        last = places[-1].number if len(places) == limit else None
        return responses.MachineList(machines=shown, next=last)

    async def _members(self, scope: str, set_: str) -> list[responses.MachineInfo]:
        """All machines of a scope or of a set: there are never many."""
        if set_:
            found = await self.fleet.reader.read(ScaleSet, set_)
            if found is None:
                raise NotFound("UnknownSet", f"there is no scale set {set_[:60]!r}")
            scopes = found.groups
        else:
            scopes = ((await self._scope(scope)).id,)
        reader = self.fleet.reader
        places = [place for name in scopes for place in await reader.find_machines(scope=name)]
        return await self._shown(places)

    async def machine(self, name: str) -> responses.MachineInfo:
        """One machine."""
        place = await find_machine(self.fleet, name)
        return views.machine(place, await self._scope(place.scope))

    async def explain_machine(self, name: str) -> responses.ExplanationInfo:
        """What happened to a machine lately, and what is awaited."""
        return views.explanation(await queries.explain_machine(self.fleet, name))

    async def create_machines(
        self, settings: Settings, key: str = "", actor: str = OPERATOR
    ) -> responses.MachineList:
        """A machine by itself, or `count` of them, each by itself."""
        entry = bodies.given(read(bodies.NewMachine, settings))
        wanted = fleet_file.entry("machine", entry)
        await self._create(wanted, key, actor)
        scopes = [one.scope for one in wanted if isinstance(one, commands.CreateScope)]
        reader = self.fleet.reader
        places = [place for scope in scopes for place in await reader.find_machines(scope=scope)]
        return responses.MachineList(machines=await self._shown(places), next=None)

    async def _create(self, wanted: tuple[fleet_file.Create, ...], key: str, actor: str) -> None:
        """All of them and, if it is new, their group; or nothing."""
        group = wanted[0].group or self.cloud.group  # one entry, so it is everybody's
        writes = [resources.create(one, group, key, actor) for one in wanted]
        if await self.fleet.reader.read(resources.Resource, resources.group_id(group)) is None:
            made = resources.create_group(group, self.cloud.location)
            writes.insert(0, changed(made, operation=key, actor=actor))
        first, *rest = writes
        try:
            await self.fleet.submit(changed(first, follow=(*first.follow, *rest)))
        except Conflict as conflict:
            if conflict.code != "Changed":
                raise
            one = wanted[0]
            name = one.set if isinstance(one, commands.CreateSet) else one.scope
            text = f"there is a {name!r} already; pick another name"
            raise Conflict("NameTaken", text) from conflict

    async def act(
        self, name: str, action: str, settings: Settings, key: str = "", actor: str = OPERATOR
    ) -> responses.AcceptedOperation:
        """Let something happen to a machine; a repeat under the same key has no effect (IC2)."""
        if done := await self._repeat(key):
            return done
        command = await self.machine_command(name, action, name_of(key), settings, actor)
        place = await find_machine(self.fleet, name)
        return await self._accept(command, (place.scope,))

    async def machine_command(
        self, name: str, action: str, operation: str, settings: Settings, actor: str = OPERATOR
    ) -> Command:
        """What `act` submits."""
        place = await find_machine(self.fleet, name)
        kind = one_of(action, ACTIONS, "action")
        how = await self._how(place.scope, action, settings)
        scope = await self._scope(place.scope)
        if scope.owner and action in OF_A_SET:
            instances = (place.machine.instance,)
            return commands.OperateInstances(
                set=scope.owner,
                operation=operation,
                action=kind,
                instances=instances,
                actor=actor,
            )
        machines = (place.machine.name,)
        command: Command = kind(
            scope=place.scope, machines=machines, operation=operation, actor=actor, **how
        )
        return command

    async def _how(self, scope: str, action: str, settings: Settings) -> dict[str, object]:
        """The action's settings, as its command has them."""
        how = bodies.given(read(bodies.ActSettings, settings))
        takes = _SETTINGS.get(action, ())
        for name in how:
            if name not in takes:
                allowed = ", ".join(takes) or "none"
                raise Refused("BadBody", f"{action} has no {name}; its settings are: {allowed}")
        if "kind" in how:
            how["kind"] = work(how["kind"])
        if action == "migrate":
            how["migration"] = True
        elif "days" in how:
            ahead = how.pop("days") * _DAY_SECONDS
            if not 0 <= ahead <= limits.DEGRADE_MAX_SECONDS:
                raise Refused("BadBody", "days must be from 0 to 7")
            least = (await self._scope(scope)).rules.redeploy_seconds
            how["not_before"] = ceil(self.fleet.clock.now() + max(ahead, least))
        return how

    # --- Scopes ---

    async def scopes(self, after: str = "", limit: int = PAGE) -> responses.ScopeList:
        """Scopes with their machines, in order of their ids."""
        limit = min(limit, PAGE)  # each has up to 200 machines
        names = await self.fleet.reader.list_ids(Scope, after, limit)
        shown = []
        for name in names:
            scope = await self.fleet.reader.read(Scope, name)
            if scope:
                shown.append(views.scope(scope, await self.fleet.reader.find_machines(scope=name)))
        return responses.ScopeList(scopes=shown, next=names[-1] if len(names) == limit else None)

    async def scope(self, name: str) -> responses.ScopeInfo:
        """One scope."""
        machines = await self.fleet.reader.find_machines(scope=name)
        return views.scope(await self._scope(name), machines)
