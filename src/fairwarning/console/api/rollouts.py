"""Host rollouts (E7)."""

from collections.abc import Mapping

from fairwarning.console.api import bodies, responses, views
from fairwarning.console.api.part import (
    OPERATOR,
    PAGE_SIZE,
    ApiSection,
    Settings,
    choose,
    maintenance_kind,
    operation_id,
    parse,
    request_text,
)
from fairwarning.core import commands, limits
from fairwarning.core.commands import RolloutCommand
from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import Operation, Rollout, ScaleSet, Scope

ROLLOUT_ACTIONS: Mapping[str, type[RolloutCommand]] = {
    "pause": commands.PauseRollout,
    "resume": commands.ResumeRollout,
    "abort": commands.AbortRollout,
}


class RolloutsApi(ApiSection):
    """Start, follow and control host rollouts."""

    async def rollouts(self, after: str = "", limit: int = PAGE_SIZE) -> responses.RolloutList:
        """List rollouts by id."""
        names = await self.fleet.reader.list_ids(Rollout, after, limit)
        rollouts = [
            views.rollout_info(rollout)
            for name in names
            if (rollout := await self.fleet.reader.read(Rollout, name))
        ]
        return responses.RolloutList(
            rollouts=rollouts, next=names[-1] if len(names) == limit else None
        )

    async def rollout(self, name: str) -> responses.RolloutInfo:
        """Return a rollout with its progress."""
        rollout = await self.fleet.reader.read(Rollout, name)
        if rollout is None:
            raise NotFound("UnknownRollout", f"there is no rollout {name[:60]!r}")
        return views.rollout_info(rollout)

    async def start_rollout(
        self, settings: Settings, key: str = "", actor: str = OPERATOR
    ) -> responses.RolloutInfo:
        """Start a rollout, which handles one update domain or one host at a time."""
        fields = bodies.set_fields(parse(bodies.NewRollout, settings))
        name = fields.pop("id", "") or operation_id(key)
        request = request_text("start rollout", settings)
        await self._known(Operation, key, request)  # raises: it is no operation's request
        if key and await self._known(Rollout, name, request):  # a repeat (IC2)
            return await self.rollout(name)
        fields["scopes"] = await self._scopes(fields.pop("scopes", []), fields.pop("sets", []))
        if "kind" in fields:
            fields["kind"] = maintenance_kind(fields["kind"])
        if hosts := fields.pop("hosts", []):
            fields["hosts"] = tuple(hosts)
        await self.fleet.submit(
            commands.StartRollout(rollout=name, actor=actor, request=request, **fields)
        )
        return await self.rollout(name)

    async def _scopes(self, scopes: list[str], sets: list[str]) -> tuple[str, ...]:
        """Return the named scopes and those of the named sets; without either, all scopes."""
        chosen = dict.fromkeys(scopes)
        for name in sets:
            scale_set = await self.fleet.reader.read(ScaleSet, name)
            if scale_set is None:
                raise NotFound("UnknownSet", f"there is no scale set {name[:60]!r}")
            chosen |= dict.fromkeys(scale_set.groups)
        if not scopes and not sets:
            all_scopes = await self.fleet.reader.list_ids(Scope, "", limits.ROLLOUT_SCOPES + 1)
            chosen = dict.fromkeys(all_scopes)
        if len(chosen) > limits.ROLLOUT_SCOPES:
            text = f"a rollout covers at most {limits.ROLLOUT_SCOPES} scopes; name those to cover"
            raise Refused("TooManyScopes", text)
        if not chosen:
            raise Refused("NothingToDo", "there are no machines to roll out to")
        return tuple(chosen)

    async def control_rollout(
        self, name: str, action: str, actor: str = OPERATOR
    ) -> responses.RolloutInfo:
        """Pause, resume or abort a rollout."""
        kind = choose(action, ROLLOUT_ACTIONS, "action")
        await self.fleet.submit(kind(rollout=name, actor=actor))
        return await self.rollout(name)
