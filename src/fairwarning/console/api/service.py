"""The service itself: who asks, the fleet in numbers (O14), entities that are set aside (IB1)."""

from dataclasses import dataclass
from importlib.metadata import version

from fairwarning.console.api import responses, views
from fairwarning.console.api.endpoints import endpoint
from fairwarning.console.api.section import MAX_PAGE_SIZE, OPERATOR, ApiSection
from fairwarning.console.api.tokens import token_info
from fairwarning.console.health import read_health
from fairwarning.core.commands import Release
from fairwarning.core.model import Ref, Rollout
from fairwarning.service.health import HealthSource
from fairwarning.service.issued_tokens import TokenRecord
from fairwarning.service.listing.summary import summarize
from fairwarning.service.tokens import TokenClaims


@dataclass(frozen=True)
class OtherPorts:
    """The metadata endpoint and the Azure Resource Manager API, which run beside the console."""

    metadata: str = ""
    arm: str = ""
    ca: str = ""  # PEM, of the latter


class ServiceApi(ApiSection):
    """The service as a whole."""

    other_parts: HealthSource  # beside the fleet
    other_ports: OtherPorts

    @endpoint("GET", "/api/service")
    def about(self, caller: TokenClaims) -> responses.ServiceInfo:
        """Get the service's version and ports, and who you are."""
        return responses.ServiceInfo(
            version=version("fairwarning"),
            subscription=self.cloud.subscription,
            metadata=self.other_ports.metadata,
            arm=self.other_ports.arm,
            ca=self.other_ports.ca,
            token=token_info(TokenRecord(claims=caller, revoked_at=None)),
        )

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

    # --- Entities that are set aside because of a bug ---

    @endpoint("GET", "/api/set-aside")
    async def set_aside(self) -> responses.SetAsideList:
        """List entities that are set aside because of a bug."""
        return responses.SetAsideList(
            set_aside=[
                responses.SetAsideInfo(
                    entity=entity.id,
                    reason=entity.reason,
                    since=views.time(entity.since),
                    attempts=entity.attempts,
                    retry_at=views.time(entity.retry_at),
                )
                for entity in self.fleet.set_aside.all()
            ]
        )

    @endpoint("DELETE", "/api/set-aside/{entity:path}", status=204)
    async def release(self, entity: str, actor: str = OPERATOR) -> None:
        """Release an entity: what is due on it is tried again at once."""
        await self.fleet.submit(Release(entity=entity, actor=actor))
