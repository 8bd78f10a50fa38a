"""Access control: operators may do everything, readers may only read, others get nothing.

The console covers the whole fleet, so a token that is limited to a resource group is refused (C3).
Programs send a bearer token with each request. A browser gets a session cookie from `/login`.
Neither is accepted in place of the other (C7).
"""

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from fairwarning.core.errors import FairwarningError, Unavailable
from fairwarning.service.issued_tokens import SignedToken
from fairwarning.service.tokens import (
    Forbidden,
    Principal,
    Role,
    TokenClaims,
    Tokens,
    TokenUse,
    Unauthorized,
)

COOKIE = "fairwarning"
_RETRY_SECONDS = "1"


def retry_header(error: FairwarningError) -> dict[str, str]:
    """Return the header that says when to try again, if that helps."""
    return {"Retry-After": _RETRY_SECONDS} if isinstance(error, Unavailable) else {}


def authorize(request: Request, tokens: Tokens) -> TokenClaims:
    """Return the token of a request; refuse it without a token that permits the request."""
    token = authenticate(request, tokens)
    check_permission(token.principal, request.method)
    return token


def check_permission(principal: Principal, method: str = "GET") -> None:
    """Raise `Forbidden` unless the principal may send requests with this method."""
    if principal.group:
        text = (
            f"the token of {principal.name!r} is limited to the group {principal.group!r}, and the "
            "console covers the whole fleet; use an operator's token without a group"
        )
        raise Forbidden("Forbidden", text)
    may_read = principal.role is Role.READER and method in {"GET", "HEAD"}
    if principal.role is not Role.OPERATOR and not may_read:
        text = f"{principal.name!r} has the role {principal.role}; use an operator's token"
        raise Forbidden("Forbidden", text)


def authenticate(request: Request, tokens: Tokens) -> TokenClaims:
    """Return the token of a request: its bearer token, or else its session cookie."""
    header = request.headers.get("authorization")
    if header is None and (session := read_cookie(request)) is not None:
        return tokens.read(session, TokenUse.PAGE)
    scheme, _, text = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        problem = "send the token of `fairwarning up --json` as Authorization: Bearer ..."
        raise Unauthorized("Unauthorized", problem)
    return tokens.read(text.strip(), TokenUse.API)


def read_cookie(request: HTTPConnection, name: str = COOKIE) -> str | None:
    """Return a cookie; the others are not decoded, as anybody can send thousands (IB7)."""
    _, sent, rest = f"; {request.headers.get('cookie', '')}".partition(f"; {name}=")
    return rest.partition(";")[0] if sent else None


def uses_tls(request: Request) -> bool:
    """Whether the browser uses TLS, also if a proxy ends it. Its cookies are then for TLS only.

    A client that forges these headers only makes its own cookies stricter.
    """
    origin = request.headers.get("origin", "")
    by_proxy = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return "https" in {request.url.scheme, origin.partition("://")[0], by_proxy}


def set_session_cookie(request: Request, response: Response, session: SignedToken) -> None:
    """Log the browser in until the session expires.

    A link in a mail opens its page with this cookie: of other sites' requests, browsers send it
    with those that open a page, and those change nothing (`OriginCheck`).
    """
    claims = session.claims
    response.set_cookie(
        COOKIE,
        session.text,
        max_age=claims.expires_at - claims.created_at,
        httponly=True,
        secure=uses_tls(request),
        samesite="lax",
    )
