"""The service as a whole: its state and numbers (O14), clock (O5), faults (M21), webhooks, tokens.

Also the entities that are set aside because of a bug (IB1).
"""

from importlib.metadata import version

from fairwarning.console.api import bodies, responses, views
from fairwarning.console.api.endpoints import NEXT_PAGE, endpoint
from fairwarning.console.api.section import MAX_PAGE_SIZE, OPERATOR, PAGE_SIZE, ApiSection
from fairwarning.core.commands import Release
from fairwarning.core.errors import Refused
from fairwarning.core.model import Ref, Rollout
from fairwarning.core.times import iso
from fairwarning.service.clock import VirtualClock
from fairwarning.service.faults import FaultKind, FaultRule
from fairwarning.service.fleet import Fleet
from fairwarning.service.health import HealthSource, PartHealth
from fairwarning.service.issued_tokens import TokenRecord
from fairwarning.service.listing.summary import summarize
from fairwarning.service.tokens import Forbidden, Principal, Role, TokenClaims, TokenUse

_MAX_TOKEN_SECONDS = 10 * 365 * 24 * 3600
_ROLES = tuple(role.value for role in Role)
_USES = (TokenUse.API.value, TokenUse.LOGIN.value)


class ServiceHealth:
    """The parts of the service, some of which may have a problem."""

    def __init__(self, parts: list[PartHealth]) -> None:
        self.parts = parts
        self.problem = next((part.problem for part in parts if part.stops_writes), "")
        """Why the service does not accept commands now."""
        self.degraded = {
            part.name: part.problem for part in parts if part.problem and not part.stops_writes
        }

    @property
    def status(self) -> str:
        """One word for all parts."""
        return "unavailable" if self.problem else "degraded" if self.degraded else "ok"


async def read_health(fleet: Fleet, others: HealthSource) -> ServiceHealth:
    """Ask the fleet and the other parts; polls are answered whatever they say (IS4)."""
    if not fleet.following:  # else the heartbeat writes to the store
        await fleet.store_check.error()
    return ServiceHealth([*others(), *fleet.health()])


class ServiceApi(ApiSection):
    """The service as a whole."""

    @endpoint("GET", "/api/service")
    def about(self, caller: TokenClaims) -> responses.ServiceInfo:
        """Get the service's version and ports, and who you are."""
        return responses.ServiceInfo(
            version=version("fairwarning"),
            subscription=self.parts.cloud.subscription,
            metadata=self.parts.metadata,
            arm=self.parts.arm,
            ca=self.parts.ca,
            token=token_info(TokenRecord(claims=caller, revoked_at=None)),
        )

    @endpoint("GET", "/api/summary")
    async def summary(self) -> responses.SummaryInfo:
        """Count machines, scopes, events and rollouts by their states."""
        await self.index.refresh()
        now = self.fleet.clock.now()
        health = await read_health(self.fleet, self.parts.health)
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
                views.copied(
                    responses.SetAsideInfo,
                    entity,
                    entity=entity.id,
                    since=views.time(entity.since),
                    retry_at=views.time(entity.retry_at),
                )
                for entity in self.fleet.set_aside.all()
            ]
        )

    @endpoint("DELETE", "/api/set-aside/{entity:path}", status=204)
    async def release(self, entity: str, actor: str = OPERATOR) -> None:
        """Release an entity: what is due on it is tried again at once."""
        await self.fleet.submit(Release(entity=entity, actor=actor))

    # --- The clock and faults ---

    @endpoint("GET", "/api/clock")
    def clock(self) -> responses.ClockInfo:
        """Get the fleet's time."""
        clock = self.fleet.clock
        return responses.ClockInfo(
            now=views.time(clock.now()),
            virtual=isinstance(clock, VirtualClock),
            rate=clock.rate,
            ahead_seconds=round(self.fleet.clock_monitor.difference_seconds, 1),
        )

    @endpoint("POST", "/api/clock")
    async def set_clock(self, body: bodies.ClockChange) -> responses.ClockInfo:
        """Advance the virtual clock, or set its rate."""
        change = bodies.set_fields(body)
        if len(change) != 1:
            raise Refused("BadBody", "give either advance_seconds or rate")
        if "advance_seconds" in change:
            await self.fleet.advance(change["advance_seconds"])
        else:
            await self.fleet.run_clock(change["rate"])
        return self.clock()

    @endpoint("GET", "/api/faults")
    def faults(self) -> responses.FaultList:
        """List the active faults."""
        return responses.FaultList(
            faults=[
                views.copied(responses.FaultInfo, fault, count=left)
                for fault, left in self.fleet.faults.active()
            ]
        )

    @endpoint("POST", "/api/faults", status=204)
    async def put_fault(self, body: bodies.NewFault) -> None:
        """Inject a fault into the metadata endpoint."""
        fault = bodies.set_fields(body)
        if name := fault.get("machine", ""):
            location = await self._find_machine(name)
            fault |= {"scope": location.scope, "machine": location.machine.name}
        elif name := fault.get("scope", ""):
            await self._scope(name)
        self.fleet.faults.put(FaultRule(**fault | {"kind": _fault_kind(fault["kind"])}))

    @endpoint("DELETE", "/api/faults", status=204)
    async def clear_faults(self) -> None:
        """Clear all faults."""
        self.fleet.faults.clear()

    # --- Webhooks. A receiver may be slow: no read waits for it. ---

    @endpoint("GET", "/api/webhooks")
    async def webhooks(self) -> responses.WebhookList:
        """List webhooks."""
        webhooks = await (await self.parts.webhooks()).list()
        return responses.WebhookList(
            webhooks=[views.copied(responses.WebhookInfo, webhook) for webhook in webhooks]
        )

    @endpoint("POST", "/api/webhooks", status=201)
    async def create_webhook(
        self, body: bodies.NewWebhook, actor: str = OPERATOR
    ) -> responses.CreatedWebhook:
        """Create a webhook that receives every event change."""
        service = await self.parts.webhooks()
        created = await service.create(**bodies.set_fields(body), actor=actor)
        return views.copied(responses.CreatedWebhook, created)

    @endpoint("DELETE", "/api/webhooks/{name}", status=204)
    async def remove_webhook(self, name: str, actor: str = OPERATOR) -> None:
        """Delete a webhook."""
        await (await self.parts.webhooks()).remove(name, actor=actor)

    @endpoint("POST", "/api/webhooks/{name}/test")
    async def test_webhook(self, name: str) -> responses.WebhookTestResult:
        """Send a test message to a webhook."""
        with self.fleet.reader.share.elsewhere():
            status = await (await self.parts.webhooks()).test(name)
        return responses.WebhookTestResult(status=status)

    # --- Tokens ---

    @endpoint("GET", "/api/tokens", query=NEXT_PAGE)
    async def tokens(self, after: str = "", limit: int = PAGE_SIZE) -> responses.TokenList:
        """List tokens that have not expired, by id."""
        records, after_last = await self.parts.tokens.page(after, limit)
        return responses.TokenList(
            tokens=[token_info(record) for record in records], next=after_last
        )

    @endpoint("POST", "/api/tokens", status=201)
    async def create_token(
        self, body: bodies.NewToken, caller: TokenClaims
    ) -> responses.CreatedToken:
        """Create a token, or a client secret. Needs a bearer token."""
        if caller.use is not TokenUse.API:
            text = "a browser session cannot create tokens; run `fairwarning token create`"
            raise Forbidden("Forbidden", text)
        _check(body)
        principal = Principal(name=body.name, role=Role(body.role), group=body.group)
        created = await self.parts.tokens.issue(TokenUse(body.use), principal, body.seconds)
        info = token_info(TokenRecord(claims=created.claims, revoked_at=None))
        return responses.CreatedToken(info=info, token=created.text)

    @endpoint("GET", "/api/tokens/{id}")
    async def token(self, name: str) -> responses.TokenInfo:
        """Get a token, without its text."""
        return token_info(await self.parts.tokens.get(name))

    @endpoint("POST", "/api/tokens/revoke")
    async def revoke_tokens(
        self, body: bodies.TokenIds, actor: str = OPERATOR
    ) -> responses.RevokedTokens:
        """Revoke tokens, and those that were got with them: all of them or none."""
        names = dict.fromkeys(body.ids)
        if len(names) > MAX_PAGE_SIZE:
            raise Refused("BadBody", f"ids must be at most {MAX_PAGE_SIZE} ids")
        records = [await self.parts.tokens.get(name) for name in names]
        await self.parts.tokens.revoke(*(record.claims for record in records), actor=actor)
        return responses.RevokedTokens(tokens=[await self.token(name) for name in names])


def _fault_kind(value: str) -> FaultKind:
    for kind in FaultKind:
        if value == kind.value:
            return kind
    raise Refused("BadFault", f"kind must be one of {', '.join(FaultKind)}")


def _check(body: bodies.NewToken) -> None:
    if body.role not in _ROLES:
        raise Refused("BadBody", f"role must be one of {', '.join(_ROLES)}")
    if body.use not in _USES:
        raise Refused("BadBody", f"use must be {' or '.join(_USES)}")
    if body.seconds is not None and not 1 <= body.seconds <= _MAX_TOKEN_SECONDS:
        raise Refused("BadBody", f"seconds must be from 1 to {_MAX_TOKEN_SECONDS} (ten years)")


def token_info(record: TokenRecord) -> responses.TokenInfo:
    """Return a token, without its text."""
    claims, principal = record.claims, record.claims.principal
    return views.copied(
        responses.TokenInfo,
        claims,
        name=principal.name,
        role=principal.role,
        group=principal.group,
        created_at=iso(claims.created_at),
        expires_at=iso(claims.expires_at),
        revoked_at=None if record.revoked_at is None else iso(record.revoked_at),
    )
