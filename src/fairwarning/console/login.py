"""`/login`: log in by the link that `up` printed or with a token, and get a session cookie.

`next` in the query is the page to go to then; the form posts to the URL it has, and so keeps it.
"""

import hmac

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from fairwarning.console import access
from fairwarning.console.page.page import HEADERS
from fairwarning.console.page.request import FormRefused, local_path, read_form
from fairwarning.console.page.words import environment
from fairwarning.core.errors import FairwarningError
from fairwarning.service.issued_tokens import IssuedTokens
from fairwarning.service.tokens import (
    TOKEN_BYTES,
    Principal,
    Role,
    TokenClaims,
    TokenUse,
    Unauthorized,
)

_FORM_BYTES = TOKEN_BYTES + 1024
_OPERATOR = Principal(name="operator", role=Role.OPERATOR)


class Login:
    """The login and logout routes. The key in the link is valid while the service runs."""

    def __init__(self, tokens: IssuedTokens, key: str) -> None:
        self._tokens = tokens
        self._key = key
        self._template = environment().get_template("login.html")
        self._empty_form = self._render(None)  # once: anybody may ask for it, any number of times

    def routes(self) -> list[Route]:
        """The login link, the login form and the logout form."""
        return [
            Route("/login", self._by_link, methods=["GET"]),
            Route("/login", self._by_token, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
        ]

    async def _by_link(self, request: Request) -> Response:
        query: bytes = request.scope["query_string"]
        before, named, key = query.rpartition(b"key=")
        if not named:
            return self._login_page()
        if before[-1:] not in b"&" or not hmac.compare_digest(key, self._key.encode()):
            text = "this link has expired; open the link that the running service printed"
            return self._login_page(Unauthorized("BadLink", text))
        return await self._log_in(request, _OPERATOR)

    async def _by_token(self, request: Request) -> Response:
        try:
            form = await read_form(request, _FORM_BYTES)
            token = self._tokens.verifier.read(form.text("token"), TokenUse.API)
            access.check_permission(token.principal)
        except FairwarningError as error:
            return self._login_page(error)
        return await self._log_in(request, token.principal, token)

    async def _log_out(self, request: Request) -> Response:
        """End the session, on every process; without one there is nothing to end."""
        response: Response = RedirectResponse("/login", 303, HEADERS)
        try:
            session = self._tokens.verifier.read(access.read_cookie(request) or "", TokenUse.PAGE)
            await self._tokens.revoke(session, actor=session.principal.name)
        except Unauthorized:
            pass
        except FairwarningError as error:  # the session cannot be ended now: keep its cookie
            return self._login_page(error)
        response.delete_cookie(access.COOKIE)
        return response

    async def _log_in(
        self, request: Request, principal: Principal, token: TokenClaims | None = None
    ) -> Response:
        """Start a session. It ends with the token that it was opened with."""
        try:
            session = await self._tokens.issue(TokenUse.PAGE, principal, parent=token)
        except FairwarningError as error:
            return self._login_page(error)
        to = local_path(request.query_params.get("next", ""))
        response = RedirectResponse(to, 303, HEADERS)
        access.set_session_cookie(request, response, session)
        return response

    def _login_page(self, error: FairwarningError | None = None) -> Response:
        if error is None:
            return HTMLResponse(self._empty_form, headers=HEADERS)
        failed = FormRefused("/login", error.message, error.status)
        return HTMLResponse(self._render(failed), error.status, HEADERS)

    def _render(self, failed: FormRefused | None) -> str:
        return self._template.render(logged_in=False, failed=failed, notice="")
