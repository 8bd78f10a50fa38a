"""Access control: operators may do everything, readers may only read, others get nothing.

`OriginCheck` is against DNS rebinding and cross-site requests: a browser on this machine can reach
the console on behalf of any site. A foreign page cannot choose the Host header of its requests
unless its own domain resolves to this machine, and it cannot hide its Origin. So every route
requires both to be the console's own.

The console covers the whole fleet, so a token that is limited to a resource group is refused (C3).
Programs send a bearer token with each request. A browser gets a session cookie from `/login`.
Neither is accepted in place of the other (C7).
"""

import re
from ipaddress import ip_address

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

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
NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?", re.ASCII)
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_RETRY_SECONDS = "1"


def retry_header(error: FairwarningError) -> dict[str, str]:
    """Return the header that says when to try again, if that helps."""
    return {"Retry-After": _RETRY_SECONDS} if isinstance(error, Unavailable) else {}


def error_response(error: FairwarningError) -> Response:
    """Return the error as a JSON response."""
    detail = {"code": error.code, "message": error.message}
    return JSONResponse({"error": detail}, error.status, NO_STORE | retry_header(error))


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


# --- Host and Origin ---


class WrongHost(FairwarningError):
    """The Host header names another host."""

    status = 421


class OriginCheck:
    """Middleware around the whole console."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...] = ()) -> None:
        self._app = app
        self._hosts = frozenset({"localhost", *hosts})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        try:
            self._check(HTTPConnection(scope))
        except FairwarningError as error:
            await error_response(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _check(self, request: HTTPConnection) -> None:
        hosts = request.headers.getlist("host")
        server = request.scope.get("server") or ("", None)
        if len(hosts) != 1 or not self._is_own_host(hosts[0], str(server[0])):
            text = "the Host header does not name this console; add the name to [console] hosts"
            raise WrongHost("WrongHost", text)
        origins = request.headers.getlist("origin")
        # Behind a proxy that ends TLS, the origin has https but the request has http.
        schemes = {"https"} if request.scope.get("scheme") == "https" else {"http", "https"}
        if any(not _same_origin(origin, hosts[0], schemes) for origin in origins):
            raise Forbidden("ForeignOrigin", "cross-origin requests are not allowed")
        method, headers = request.scope["method"], request.headers
        by_cookie = "authorization" not in headers and read_cookie(request) is not None
        if method in _SAFE_METHODS or origins or not by_cookie:
            return
        if headers.get("sec-fetch-site") != "same-origin":
            text = (
                "a change by session cookie needs an Origin header or Sec-Fetch-Site: same-origin; "
                "send one, or a bearer token"
            )
            raise Forbidden("NoOrigin", text)

    def _is_own_host(self, host: str, server: str) -> bool:
        name = _host_name(host)
        if name in self._hosts:
            return True
        try:
            return ip_address(name) == ip_address(server)
        except ValueError:
            return False


def _host_name(host: str) -> str:
    """Return the host without its port, or an empty string if it is malformed."""
    match = _HOST.fullmatch(host)
    return match[1].strip("[]").lower().removesuffix(".") if match else ""


def _same_origin(origin: str, host: str, schemes: set[str]) -> bool:
    scheme, _, authority = origin.partition("://")
    return scheme in schemes and authority.lower() == host.lower()
