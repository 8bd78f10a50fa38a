"""Keeps other sites' pages out: a browser on this machine can reach us for any of them.

A page elsewhere cannot choose the Host header that its requests carry, unless its own name is made
to point here; nor can it hide its Origin. So both have to be ours, on every route.
"""

import re
from ipaddress import ip_address

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from fairwarning.console.access import COOKIE
from fairwarning.console.api.routes import refusal
from fairwarning.core.errors import FairwarningError
from fairwarning.service.tokens import Forbidden

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?", re.ASCII)
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class WrongHost(FairwarningError):
    """The request was meant for another host."""

    status = 421


class OriginCheck:
    """Around the whole console."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...] = ()) -> None:
        self._app = app
        self._hosts = frozenset({"localhost", *hosts})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it through, or refuse it."""
        try:
            self._check(HTTPConnection(scope))
        except FairwarningError as error:
            await refusal(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _check(self, request: HTTPConnection) -> None:
        hosts = request.headers.getlist("host")
        server = request.scope.get("server") or ("", None)
        if len(hosts) != 1 or not self._is_ours(hosts[0], str(server[0])):
            text = "this is not the host you asked for; its names are set by [console] hosts"
            raise WrongHost("WrongHost", text)
        origins = request.headers.getlist("origin")
        if any(not _same(origin, hosts[0]) for origin in origins):
            raise Forbidden("ForeignOrigin", "pages of other sites may not ask here")
        method, headers = request.scope["method"], request.headers
        by_cookie = "authorization" not in headers and COOKIE in request.cookies
        if method in _SAFE or origins or not by_cookie:
            return
        if headers.get("sec-fetch-site") != "same-origin":
            raise Forbidden("NoOrigin", "a browser says where a request comes from; yours did not")

    def _is_ours(self, host: str, server: str) -> bool:
        name = _name(host)
        if name in self._hosts:
            return True
        try:
            return ip_address(name) == ip_address(server)
        except ValueError:
            return False


def _name(host: str) -> str:
    """The host without its port; empty if it is none."""
    found = _HOST.fullmatch(host)
    return found[1].strip("[]").lower().removesuffix(".") if found else ""


def _same(origin: str, host: str) -> bool:
    scheme, _, authority = origin.partition("://")
    return scheme in {"http", "https"} and authority.lower() == host.lower()
