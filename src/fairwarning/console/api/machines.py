"""Machines, scopes and the actions on machines."""

from collections.abc import Mapping, Sequence
from math import ceil

from fairwarning.console.api import bodies, responses, views
from fairwarning.console.api.endpoints import NEXT_PAGE, endpoint
from fairwarning.console.api.filters import MACHINE_FILTERS
from fairwarning.console.api.section import (
    OPERATOR,
    PAGE_SIZE,
    ApiSection,
    choose,
    maintenance_kind,
    operation_id,
    request_text,
)
from fairwarning.core import commands, limits
from fairwarning.core.commands import Command, Operate
from fairwarning.core.configuration import ConfigurationError, table
from fairwarning.core.errors import Conflict, NotFound, Refused
from fairwarning.core.model import Scope
from fairwarning.core.record import changed
from fairwarning.service import resources
from fairwarning.service.config import fleet_file
from fairwarning.service.config.values import MACHINE
from fairwarning.service.history import queries
from fairwarning.service.listing.filters import EVERY_MACHINE, MachineFilter

_DAY_SECONDS = 24 * 3600
_ATTEMPTS = 5  # another request may create or remove the resource group at the same time

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
"""The command of each action on a machine, by the action's name in the API."""

SET_ACTIONS = tuple(name for name, command in ACTIONS.items() if command in commands.OF_A_SET)
"""The actions that an instance of a scale set takes through its set."""

_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "freeze": ("duration_seconds",),
    "maintain": ("kind", "duration_seconds"),
    "migrate": ("duration_seconds",),
    "degrade": ("days",),
}


_DEGRADE_DAYS = 3  # of notice, unless they are given


class MachinesApi(ApiSection):
    """Machines and scopes."""

    @endpoint("GET", "/api/machines", query={**NEXT_PAGE, **MACHINE_FILTERS})
    async def machines(
        self, after: int = 0, limit: int = PAGE_SIZE, wanted: MachineFilter = EVERY_MACHINE
    ) -> responses.MachineList:
        """List machines by number."""
        await self._check_names(wanted.scope, wanted.set)
        await self.index.refresh()
        locations = await self.index.find_machines(wanted)
        later = [location for location in locations if location.number > after]
        return responses.MachineList(
            machines=await self.describe_machines(later[:limit]),
            next=later[limit - 1].number if len(later) > limit else None,
            total=len(locations),
        )

    @endpoint("POST", "/api/machines", status=201)
    async def create_machines(
        self, body: bodies.NewMachine, key: str = "", actor: str = OPERATOR
    ) -> responses.MachineList:
        """Create one or more standalone machines."""
        create_commands = fleet_file.entry("machine", bodies.set_fields(body))
        await self._create(create_commands, key, request_text("create machines", body), actor)
        scopes = [
            command.scope
            for command in create_commands
            if isinstance(command, commands.CreateScope)
        ]
        reader = self.fleet.reader
        locations = [
            location for scope in scopes for location in await reader.find_machines(scope=scope)
        ]
        machines = await self.describe_machines(locations)
        return responses.MachineList(machines=machines, next=None, total=len(machines))

    @endpoint("GET", "/api/machines/{name:path}/explain")
    async def explain_machine(self, name: str) -> responses.ExplanationInfo:
        """Explain a machine's recent activity."""
        return views.explanation_info(await queries.explain_machine(self.fleet, name))

    @endpoint("GET", "/api/machines/{name:path}")
    async def machine(self, name: str) -> responses.MachineInfo:
        """Get a machine."""
        location = await self._find_machine(name)
        (url,) = await self._urls([location])
        return views.machine_info(location, await self._scope(location.scope), url)

    @endpoint("PATCH", "/api/machines/{name:path}")
    async def update_machine(
        self, name: str, body: bodies.MachineChanges, actor: str = OPERATOR
    ) -> responses.MachineInfo:
        """Change a machine's address.

        It identifies the machine in a host run (M22).
        """
        location = await self._find_machine(name)
        try:
            values = table({"address": body.address} if body.address else {}, MACHINE)
        except ConfigurationError as error:
            raise Refused("BadBody", error.message) from None
        command = commands.UpdateMachine(
            scope=location.scope,
            machine=location.machine.name,
            address=values.get("address", ""),
            actor=actor,
        )
        await self.fleet.submit(command)
        return await self.machine(name)

    async def _create(
        self, create_commands: tuple[fleet_file.Create, ...], key: str, request: str, actor: str
    ) -> None:
        """Create all resources, and their resource group if it is new, in one decision.

        Another request may create or remove the group after it was read; then it is read again.
        """
        group = create_commands[0].group or self.parts.cloud.group  # all come from one entry
        writes = [resources.create(command, group, key, actor) for command in create_commands]
        new_group = resources.create_group(group, self.parts.cloud.location)
        for _ in range(_ATTEMPTS):
            existing = await self.fleet.reader.read(resources.Resource, new_group.resource)
            first, *rest = writes
            if existing is None:
                first, rest = changed(new_group, operation=key, actor=actor), writes
            creation = changed(first, follow=(*first.follow, *rest), request=request)
            try:
                await self.fleet.submit(creation)
            except (Conflict, NotFound) as error:
                if error.code not in {"Changed", "UnknownResource"}:
                    raise
                if existing is not None and error.code == "Changed":
                    raise _name_taken(create_commands[0]) from error
            else:
                return
        text = f"other requests keep creating and removing the resource group {group!r}; try again"
        raise Conflict("GroupChanged", text)

    @endpoint("POST", "/api/machines/{name:path}/{action}", status=202, action=tuple(ACTIONS))
    async def act(
        self,
        name: str,
        action: str,
        body: bodies.ActSettings,
        key: str = "",
        actor: str = OPERATOR,
    ) -> responses.AcceptedOperation:
        """Start an action on a machine.

        A repeat with the same key has no effect (IC2).
        """
        request = request_text(f"{action} {name}", body)
        if repeated := await self._repeated(key, request):
            return repeated
        command = await self.machine_command(name, action, body, operation_id(key), actor)
        location = await self._find_machine(name)
        return await self._submit(changed(command, request=request), (location.scope,))

    async def machine_command(
        self,
        name: str,
        action: str,
        body: bodies.ActSettings,
        operation: str,
        actor: str = OPERATOR,
    ) -> Command:
        """Return the command that `act` submits."""
        location = await self._find_machine(name)
        kind = choose(action, ACTIONS, "action")
        arguments = await self._arguments(location.scope, action, body)
        scope = await self._scope(location.scope)
        if scope.owner and action in SET_ACTIONS:
            instances = (location.machine.instance,)
            return commands.OperateInstances(
                set=scope.owner,
                operation=operation,
                action=kind,
                instances=instances,
                actor=actor,
            )
        machines = (location.machine.name,)
        command: Command = kind(
            scope=location.scope, machines=machines, operation=operation, actor=actor, **arguments
        )
        return command

    async def _arguments(
        self, scope: str, action: str, body: bodies.ActSettings
    ) -> dict[str, object]:
        """Convert an action's settings to the arguments of its command."""
        arguments = bodies.set_fields(body)
        allowed_names = _SETTINGS.get(action, ())
        for name in arguments:
            if name not in allowed_names:
                allowed = ", ".join(allowed_names) or "none"
                raise Refused("BadBody", f"{action} has no {name}; its settings are: {allowed}")
        if "kind" in arguments:
            arguments["kind"] = maintenance_kind(arguments["kind"])
        if action == "migrate":
            arguments["migration"] = True
        elif action == "degrade":
            ahead = arguments.pop("days", _DEGRADE_DAYS) * _DAY_SECONDS
            if not 0 <= ahead <= limits.DEGRADE_MAX_SECONDS:
                raise Refused("BadBody", "days must be from 0 to 7")
            least = (await self._scope(scope)).rules.redeploy_seconds
            arguments["not_before"] = ceil(self.fleet.clock.now() + max(ahead, least))
        return arguments

    # --- Scopes ---

    @endpoint("GET", "/api/scopes", query=NEXT_PAGE)
    async def scopes(self, after: str = "", limit: int = PAGE_SIZE) -> responses.ScopeList:
        """List scopes with their machines, by scope id."""
        limit = min(limit, PAGE_SIZE)  # a scope has up to 200 machines
        names = await self.fleet.reader.list_ids(Scope, after, limit)
        read = [await self.fleet.reader.read(Scope, name) for name in names]
        scopes = await self._scope_infos([scope for scope in read if scope])
        return responses.ScopeList(scopes=scopes, next=names[-1] if len(names) == limit else None)

    @endpoint("GET", "/api/scopes/{id:path}")
    async def scope(self, name: str) -> responses.ScopeInfo:
        """Get a scope."""
        (info,) = await self._scope_infos([await self._scope(name)])
        return info

    async def _scope_infos(self, scopes: Sequence[Scope]) -> list[responses.ScopeInfo]:
        infos = []
        for scope, polled_at in zip(scopes, await self.fleet.polled_at(scopes), strict=True):
            machines = await self.fleet.reader.find_machines(scope=scope.id)
            infos.append(views.scope_info(scope, machines, await self._urls(machines), polled_at))
        return infos


def _name_taken(command: fleet_file.Create) -> Conflict:
    name = command.set if isinstance(command, commands.CreateSet) else command.scope
    return Conflict("NameTaken", f"{name!r} already exists; choose another name")
