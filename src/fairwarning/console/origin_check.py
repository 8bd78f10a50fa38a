"""Host and Origin checks, against DNS rebinding and cross-site requests.

A browser on this machine can reach the console on behalf of any site. A foreign page cannot choose
the Host header of its requests unless its own domain resolves to this machine, and it cannot hide
its Origin. So every route requires both to be the console's own.
"""

import re
from ipaddress import ip_address

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from fairwarning.console.access import read_cookie
from fairwarning.console.api.routes import error_response
from fairwarning.core.errors import FairwarningError
from fairwarning.service.tokens import Forbidden

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?", re.ASCII)
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


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
