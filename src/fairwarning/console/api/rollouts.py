"""Host rollouts (E7)."""

from collections.abc import Mapping
from typing import Any

from fairwarning.console.api import bodies, responses, views
from fairwarning.console.api.endpoints import NEXT_PAGE, endpoint
from fairwarning.console.api.filters import ROLLOUT_FILTERS
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
from fairwarning.core.commands import RolloutCommand
from fairwarning.core.errors import Conflict, NotFound, Refused
from fairwarning.core.forecast import forecast
from fairwarning.core.model import Ref, Rollout, RolloutStatus, Scope
from fairwarning.core.record import changed
from fairwarning.service.listing import progress
from fairwarning.service.listing.lanes import waits_for

_NAMED_SCOPES = 10  # of those that nobody polls, in a plan
_NAMED_FAILURES = 10  # machines on which a rollout failed

ROLLOUT_ACTIONS: Mapping[str, type[RolloutCommand]] = {
    "pause": commands.PauseRollout,
    "resume": commands.ResumeRollout,
    "abort": commands.AbortRollout,
}


class RolloutsApi(ApiSection):
    """Start, follow and control host rollouts."""

    @endpoint("GET", "/api/rollouts", query={**NEXT_PAGE, **ROLLOUT_FILTERS})
    async def rollouts(
        self,
        after: str = "",
        limit: int = PAGE_SIZE,
        status: RolloutStatus | None = None,
        prefix: str = "",
    ) -> responses.RolloutList:
        """List rollouts by id."""
        matching: list[Rollout] = []
        names = [after]
        while names and len(matching) < limit:
            names = await self.fleet.reader.list_ids(Rollout, names[-1], limit)
            refs: list[Ref] = [(Rollout, name) for name in names if name.startswith(prefix)]
            entities = (await self.fleet.reader.read_all(refs)).values()
            rollouts = [rollout for rollout in entities if isinstance(rollout, Rollout)]
            matching += [each for each in rollouts if status in {None, each.status}]
        shown = [views.rollout_info(rollout) for rollout in matching[:limit]]
        following = shown[-1].id if len(shown) == limit else None
        return responses.RolloutList(rollouts=shown, next=following)

    @endpoint("GET", "/api/rollouts/{id}")
    async def rollout(self, name: str) -> responses.RolloutDetails:
        """Get a rollout with its progress and what it waits for."""
        rollout = await self._rollout(name)
        now = self.fleet.clock.now()
        failures = await progress.failed_machines(self.fleet, rollout, _NAMED_FAILURES)
        return views.copied(
            responses.RolloutDetails,
            views.rollout_info(rollout),
            machines_per_hour=progress.machines_per_hour(rollout, now),
            estimated_end=views.time_or_none(progress.estimated_end(rollout, now)),
            failures=[
                views.copied(responses.FailedMachineInfo, failure, at=views.time(failure.at))
                for failure in failures
            ],
            waits_for=await waits_for(self.fleet, rollout),
        )

    async def _rollout(self, name: str) -> Rollout:
        rollout = await self.fleet.reader.read(Rollout, name)
        if rollout is None:
            raise NotFound("UnknownRollout", f"there is no rollout {name[:60]!r}")
        return rollout

    @endpoint("POST", "/api/rollouts", status=201)
    async def start_rollout(
        self, body: bodies.NewRollout, key: str = "", actor: str = OPERATOR
    ) -> responses.RolloutDetails:
        """Start a rollout, one update domain or one host at a time."""
        fields = bodies.set_fields(body)
        name = fields.pop("id", "") or operation_id(key)
        request = request_text("start rollout", body)
        if known := await self._known(key, request):  # a repeat (IC2)
            return await self.rollout(known.target)
        command = await self._command(name, fields, actor)
        await self.fleet.submit(changed(command, operation=key, request=request))
        return await self.rollout(name)

    @endpoint("POST", "/api/rollouts/plan")
    async def plan_rollout(self, body: bodies.NewRollout) -> responses.RolloutPlan:
        """Plan a rollout without starting it."""
        fields = bodies.set_fields(body)
        name = fields.pop("id", "") or operation_id("")
        command = await self._command(name, fields, OPERATOR)
        commands.validate(command)
        if await self.fleet.reader.read(Rollout, name):
            raise Conflict("RolloutExists", f"a rollout {name!r} exists already")
        refs: list[Ref] = [(Scope, scope) for scope in command.scopes]
        entities = (await self.fleet.reader.read_all(refs)).values()
        scopes = {scope.id: scope for scope in entities if isinstance(scope, Scope)}
        for missing in set(command.scopes) - scopes.keys():
            await self._scope(missing)  # raises
        planned = forecast(scopes, command)
        now = self.fleet.clock.now()
        return views.copied(
            responses.RolloutPlan,
            planned,
            kind=command.kind,
            batch=command.batch,
            scopes_not_polled=len(planned.unpolled),
            not_polled=list(planned.unpolled[:_NAMED_SCOPES]),
            scopes_with_windows=planned.windowed,
            steps_without_window=planned.never,
            earliest_end=views.time(now + planned.earliest_seconds),
            latest_end=views.time(now + planned.latest_seconds),
        )

    async def _command(
        self, name: str, fields: dict[str, Any], actor: str
    ) -> commands.StartRollout:
        """Return the command that starts the rollout; the body's fields say how."""
        for choice in ("scopes", "sets", "hosts"):
            if fields.get(choice) == []:  # a script has selected nothing, and must not get all
                text = f"{choice} is empty: give at least one name, or leave {choice} out"
                raise Refused("BadBody", text)
        fields["scopes"] = await self._scopes(fields.pop("scopes", []), fields.pop("sets", []))
        if "kind" in fields:
            fields["kind"] = maintenance_kind(fields["kind"])
        if "hosts" in fields:
            fields["hosts"] = tuple(fields["hosts"])
        return commands.StartRollout(rollout=name, actor=actor, **fields)

    async def _scopes(self, scopes: list[str], sets: list[str]) -> tuple[str, ...]:
        """Return the named scopes and those of the named sets; without either, all scopes."""
        chosen = dict.fromkeys(scopes)
        for name in sets:
            chosen |= dict.fromkeys((await self._scale_set(name)).groups)
        if not scopes and not sets:
            all_scopes = await self.fleet.reader.list_ids(Scope, "", limits.ROLLOUT_SCOPES + 1)
            chosen = dict.fromkeys(all_scopes)
        if len(chosen) > limits.ROLLOUT_SCOPES:
            text = f"a rollout covers at most {limits.ROLLOUT_SCOPES} scopes; name those to cover"
            raise Refused("TooManyScopes", text)
        if not chosen:
            raise Refused("NothingToDo", "there are no machines to roll out to")
        return tuple(chosen)

    @endpoint("POST", "/api/rollouts/{id}/{action}", action=tuple(ROLLOUT_ACTIONS))
    async def control_rollout(
        self, name: str, action: str, actor: str = OPERATOR
    ) -> responses.RolloutDetails:
        """Pause, resume or abort a rollout."""
        kind = choose(action, ROLLOUT_ACTIONS, "action")
        await self.fleet.submit(kind(rollout=name, actor=actor))
        return await self.rollout(name)
