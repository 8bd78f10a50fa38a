"""Tokens: create, list and revoke them (C7)."""

from fairwarning.console.api import bodies, responses, views
from fairwarning.console.api.endpoints import NEXT_PAGE, endpoint
from fairwarning.console.api.section import MAX_PAGE_SIZE, OPERATOR, PAGE_SIZE, ApiSection
from fairwarning.core.errors import Refused
from fairwarning.core.times import iso
from fairwarning.service.issued_tokens import IssuedTokens, TokenRecord
from fairwarning.service.tokens import Forbidden, Principal, Role, TokenClaims, TokenUse

MAX_SECONDS = 10 * 365 * 24 * 3600
_ROLES = tuple(role.value for role in Role)
_USES = (TokenUse.API.value, TokenUse.LOGIN.value)


class TokensApi(ApiSection):
    """The tokens of the service."""

    issued_tokens: IssuedTokens

    @endpoint("GET", "/api/tokens", query=NEXT_PAGE)
    async def tokens(self, after: str = "", limit: int = PAGE_SIZE) -> responses.TokenList:
        """List tokens that have not expired, by id."""
        records, after_last = await self.issued_tokens.page(after, limit)
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
        created = await self.issued_tokens.issue(TokenUse(body.use), principal, body.seconds)
        info = token_info(TokenRecord(claims=created.claims, revoked_at=None))
        return responses.CreatedToken(info=info, token=created.text)

    @endpoint("GET", "/api/tokens/{id}")
    async def token(self, name: str) -> responses.TokenInfo:
        """Get a token, without its text."""
        return token_info(await self.issued_tokens.get(name))

    @endpoint("POST", "/api/tokens/revoke")
    async def revoke_tokens(
        self, body: bodies.TokenIds, actor: str = OPERATOR
    ) -> responses.RevokedTokens:
        """Revoke tokens, and those that were got with them: all of them or none."""
        names = dict.fromkeys(body.ids)
        if len(names) > MAX_PAGE_SIZE:
            raise Refused("BadBody", f"ids must be at most {MAX_PAGE_SIZE} ids")
        records = [await self.issued_tokens.get(name) for name in names]
        await self.issued_tokens.revoke(*(record.claims for record in records), actor=actor)
        return responses.RevokedTokens(tokens=[await self.token(name) for name in names])


def _check(body: bodies.NewToken) -> None:
    if body.role not in _ROLES:
        raise Refused("BadBody", f"role must be one of {', '.join(_ROLES)}")
    if body.use not in _USES:
        raise Refused("BadBody", f"use must be {' or '.join(_USES)}")
    if body.seconds is not None and not 1 <= body.seconds <= MAX_SECONDS:
        raise Refused("BadBody", f"seconds must be from 1 to {MAX_SECONDS} (ten years)")


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
