"""Access control: operators may do everything, readers may only read, other roles get nothing.

Programs send a bearer token with each request. A browser gets a session cookie from `/login`.
"""

from starlette.requests import Request
from starlette.responses import Response

from fairwarning.service.tokens import Forbidden, Principal, Role, Tokens, Unauthorized

COOKIE = "fairwarning"
SESSION_SECONDS = 12 * 3600


def authorize(request: Request, tokens: Tokens) -> Principal:
    """Return the principal of a request; refuse it without a token that permits the request."""
    principal = tokens.read(_token(request))
    may_read = (
        principal.role is Role.READER and not principal.group and request.method in {"GET", "HEAD"}
    )
    if principal.role is not Role.OPERATOR and not may_read:
        text = f"{principal.name!r} has the role {principal.role}; use an operator's token"
        raise Forbidden("Forbidden", text)
    return principal


def _token(request: Request) -> str:
    header = request.headers.get("authorization")
    if header is None and COOKIE in request.cookies:
        return request.cookies[COOKIE]
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        text = "send the token of `fairwarning up --json` as Authorization: Bearer ..."
        raise Unauthorized("Unauthorized", text)
    return token.strip()


def set_session_cookie(response: Response, tokens: Tokens, principal: Principal) -> None:
    """Log the browser in as this principal for `SESSION_SECONDS`."""
    response.set_cookie(
        COOKIE,
        tokens.access(principal, SESSION_SECONDS),
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
    )
