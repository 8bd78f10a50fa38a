"""Host rollouts (E7)."""

from collections.abc import Mapping

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
from fairwarning.core.commands import RolloutCommand
from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import Rollout, ScaleSet, Scope

STEERING: Mapping[str, type[RolloutCommand]] = {
    "pause": commands.PauseRollout,
    "resume": commands.ResumeRollout,
    "abort": commands.AbortRollout,
}


class RolloutsApi(ApiSection):
    """Host rollouts, started and steered."""

    async def rollouts(self, after: str = "", limit: int = PAGE) -> responses.RolloutList:
        """Rollouts in order of their ids."""
        names = await self.fleet.reader.list_ids(Rollout, after, limit)
        shown = [
            views.rollout(found)
            for name in names
            if (found := await self.fleet.reader.read(Rollout, name))
        ]
        return responses.RolloutList(
            rollouts=shown, next=names[-1] if len(names) == limit else None
        )

    async def rollout(self, name: str) -> responses.RolloutInfo:
        """One rollout, and how far it is."""
        found = await self.fleet.reader.read(Rollout, name)
        if found is None:
            raise NotFound("UnknownRollout", f"there is no rollout {name[:60]!r}")
        return views.rollout(found)

    async def start_rollout(
        self, settings: Settings, key: str = "", actor: str = OPERATOR
    ) -> responses.RolloutInfo:
        """Work through machines, an update domain or a host at a time."""
        given = bodies.given(read(bodies.NewRollout, settings))
        name = given.pop("id", "") or name_of(key)
        if key and await self.fleet.reader.read(Rollout, name):  # a repeat (IC2)
            return await self.rollout(name)
        given["scopes"] = await self._scopes(given.pop("scopes", []), given.pop("sets", []))
        if "kind" in given:
            given["kind"] = work(given["kind"])
        if hosts := given.pop("hosts", []):
            given["hosts"] = tuple(hosts)
        await self.fleet.submit(commands.StartRollout(rollout=name, actor=actor, **given))
        return await self.rollout(name)

    async def _scopes(self, scopes: list[str], sets: list[str]) -> tuple[str, ...]:
        """Those named, and those of the sets named; without any, all there are."""
        wanted = dict.fromkeys(scopes)
        for name in sets:
            found = await self.fleet.reader.read(ScaleSet, name)
            if found is None:
                raise NotFound("UnknownSet", f"there is no scale set {name[:60]!r}")
            wanted |= dict.fromkeys(found.groups)
        if not scopes and not sets:
            all_of_them = await self.fleet.reader.list_ids(Scope, "", limits.ROLLOUT_SCOPES + 1)
            wanted = dict.fromkeys(all_of_them)
        if len(wanted) > limits.ROLLOUT_SCOPES:
            most = f"a rollout goes over at most {limits.ROLLOUT_SCOPES} scopes; name them"
            raise Refused("TooManyScopes", most)
        if not wanted:
            raise Refused("NothingToDo", "there is no machine to work on")
        return tuple(wanted)

    async def steer_rollout(
        self, name: str, action: str, actor: str = OPERATOR
    ) -> responses.RolloutInfo:
        """Pause it, let it go on, or end it."""
        kind = one_of(action, STEERING, "action")
        await self.fleet.submit(kind(rollout=name, actor=actor))
        return await self.rollout(name)
