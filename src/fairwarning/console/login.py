"""`/login`: by the link that `up` printed, or with a token; after that a cookie says who it is."""

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
    """The key in the link is good for as long as the service runs."""

    def __init__(self, tokens: Tokens, key: str) -> None:
        self._tokens = tokens
        self._key = key
        self._env = environment()

    def routes(self) -> list[Route]:
        """The link and the form."""
        return [
            Route("/login", self._by_link, methods=["GET"]),
            Route("/login", self._by_token, methods=["POST"]),
            Route("/logout", self._leave, methods=["POST"]),
        ]

    async def _by_link(self, request: Request) -> Response:
        given = request.query_params.get("key")
        if given is None:
            return self._form()
        if not hmac.compare_digest(given.encode(), self._key.encode()):
            text = "this link is of a service that has ended; open the one it printed last"
            return self._form(Unauthorized("BadLink", text))
        return self._welcome(_OPERATOR)

    async def _by_token(self, request: Request) -> Response:
        try:
            form = await forms.read(request)
            return self._welcome(self._tokens.read(form.text("token")))
        except FairwarningError as error:
            return self._form(error)

    async def _leave(self, _: Request) -> Response:
        response = RedirectResponse("/login", 303, HEADERS)
        response.delete_cookie(access.COOKIE)
        return response

    def _welcome(self, principal: Principal) -> Response:
        response = RedirectResponse("/", 303, HEADERS)
        access.remember(response, self._tokens, principal)
        return response

    def _form(self, error: FairwarningError | None = None) -> Response:
        failed = forms.FormRefused("/login", error.message, error.status) if error else None
        html = self._env.get_template("login.html").render(known=False, failed=failed, notice="")
        return HTMLResponse(html, error.status if error else 200, HEADERS)
