"""Who may use the console: operators everything, readers what changes nothing, others nothing.

Programs send a token with each request. A browser gets it as a cookie, once, at `/login`.
"""

from starlette.requests import Request
from starlette.responses import Response

from fairwarning.service.tokens import Forbidden, Principal, Role, Tokens, Unauthorized

COOKIE = "fairwarning"
SESSION_SECONDS = 12 * 3600


def check(request: Request, tokens: Tokens) -> Principal:
    """Who asks; refused without a token that is good for it."""
    principal = tokens.read(_token(request))
    reads = (
        principal.role is Role.READER and not principal.group and request.method in {"GET", "HEAD"}
    )
    if principal.role is not Role.OPERATOR and not reads:
        text = f"{principal.name!r} is a {principal.role}; this is for operators"
        raise Forbidden("Forbidden", text)
    return principal


def _token(request: Request) -> str:
    header = request.headers.get("authorization")
    if header is None and COOKIE in request.cookies:
        return request.cookies[COOKIE]
    scheme, _, given = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not given.strip():
        text = "send the token of `fairwarning up --json` as Authorization: Bearer ..."
        raise Unauthorized("Unauthorized", text)
    return given.strip()


def remember(response: Response, tokens: Tokens, principal: Principal) -> None:
    """Let the browser be this principal for a while."""
    response.set_cookie(
        COOKIE,
        tokens.access(principal, SESSION_SECONDS),
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
    )
