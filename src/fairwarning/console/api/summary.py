"""The fleet in numbers (O14)."""

from fairwarning.console.api import responses, views
from fairwarning.console.api.endpoints import endpoint
from fairwarning.console.api.section import MAX_PAGE_SIZE, ApiSection
from fairwarning.console.health import read_health
from fairwarning.core.model import Ref, Rollout
from fairwarning.service.health import HealthSource
from fairwarning.service.listing.summary import summarize


class SummaryApi(ApiSection):
    """Counts over the whole fleet."""

    other_parts: HealthSource  # beside the fleet

    @endpoint("GET", "/api/summary")
    async def summary(self) -> responses.SummaryInfo:
        """Count machines, scopes, events and rollouts by their states."""
        await self.index.refresh()
        now = self.fleet.clock.now()
        health = await read_health(self.fleet, self.other_parts)
        counts = summarize(self.index, await self._rollouts(), now)
        return responses.SummaryInfo(
            now=views.time(now),
            machines=sum(counts.power.values()),
            power={power.value: count for power, count in counts.power.items()},
            scopes=counts.scopes,
            scopes_not_polled=counts.unpolled_scopes,
            machines_not_polled=counts.unpolled_machines,
            events=[
                responses.EventCount(type=type_.value, status=status.value, count=count)
                for (type_, status), count in sorted(counts.events.items())
            ],
            unapproved=counts.unapproved,
            soon=counts.soon,
            rollouts={status.value: count for status, count in counts.rollouts.items()},
            problem=health.problem,
            set_aside=len(self.fleet.set_aside),
            degraded=health.degraded,
        )

    async def _rollouts(self) -> list[Rollout]:
        rollouts: list[Rollout] = []
        after = ""
        while names := await self.fleet.reader.list_ids(Rollout, after, MAX_PAGE_SIZE):
            refs: list[Ref] = [(Rollout, name) for name in names]
            entities = (await self.fleet.reader.read_all(refs)).values()
            rollouts += [rollout for rollout in entities if isinstance(rollout, Rollout)]
            after = names[-1]
        return rollouts
