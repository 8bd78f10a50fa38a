"""`/login`: log in by the link that `up` printed or with a token, and get a session cookie."""

import hmac

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from fairwarning.console import access
from fairwarning.console.page import forms
from fairwarning.console.page.page import HEADERS
from fairwarning.console.page.render import environment
from fairwarning.core.errors import FairwarningError
from fairwarning.service.tokens import Principal, Role, Tokens, Unauthorized

_OPERATOR = Principal(name="operator", role=Role.OPERATOR)


class Login:
    """The login and logout routes. The key in the link is valid while the service runs."""

    def __init__(self, tokens: Tokens, key: str) -> None:
        self._tokens = tokens
        self._key = key
        self._env = environment()

    def routes(self) -> list[Route]:
        """The login link, the login form and the logout form."""
        return [
            Route("/login", self._by_link, methods=["GET"]),
            Route("/login", self._by_token, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
        ]

    async def _by_link(self, request: Request) -> Response:
        key = request.query_params.get("key")
        if key is None:
            return self._login_page()
        if not hmac.compare_digest(key.encode(), self._key.encode()):
            text = "this link has expired; open the link that the running service printed"
            return self._login_page(Unauthorized("BadLink", text))
        return self._log_in(_OPERATOR)

    async def _by_token(self, request: Request) -> Response:
        try:
            form = await forms.read(request)
            return self._log_in(self._tokens.read(form.text("token")))
        except FairwarningError as error:
            return self._login_page(error)

    async def _log_out(self, _: Request) -> Response:
        response = RedirectResponse("/login", 303, HEADERS)
        response.delete_cookie(access.COOKIE)
        return response

    def _log_in(self, principal: Principal) -> Response:
        response = RedirectResponse("/", 303, HEADERS)
        access.set_session_cookie(response, self._tokens, principal)
        return response

    def _login_page(self, error: FairwarningError | None = None) -> Response:
        failed = forms.FormRefused("/login", error.message, error.status) if error else None
        template = self._env.get_template("login.html")
        html = template.render(logged_in=False, failed=failed, notice="")
        return HTMLResponse(html, error.status if error else 200, HEADERS)
