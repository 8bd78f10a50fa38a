"""The routes of the page: rendering of views, and handling of forms."""

import zlib
from dataclasses import replace
from importlib.metadata import version
from importlib.resources import files
from urllib.parse import quote, unquote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from fairwarning.console import access
from fairwarning.console.api import Api
from fairwarning.console.page import (
    activity,
    confirm,
    events,
    fleet,
    fleet_map,
    history,
    machines,
    rollouts,
    search,
    service,
    sets,
)
from fairwarning.console.page.request import (
    FormDone,
    FormHandler,
    FormRefused,
    FormRoutes,
    PageContent,
    PageRequest,
    View,
    Views,
    read_form,
)
from fairwarning.console.page.words import environment, new_key
from fairwarning.core.errors import FairwarningError, NotFound
from fairwarning.service.tokens import Role, Unauthorized

_VIEWS: Views = [  # in the order in which their routes are tried
    *(*fleet.VIEWS, *fleet_map.VIEWS, *activity.VIEWS, *machines.VIEWS, *sets.VIEWS),
    *(*events.VIEWS, *rollouts.VIEWS, *history.VIEWS, *confirm.VIEWS, *service.VIEWS),
    *search.VIEWS,
]
_FORMS: FormRoutes = [
    *(*machines.FORMS, *sets.FORMS, *events.FORMS, *rollouts.FORMS, *service.FORMS)
]
_FILES = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "map.js": "text/javascript",
    "timeline.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_SEE_OTHER = 303
_VERSION = version("fairwarning")
_COMPRESSION = 4  # level
_GZIP = 31  # zlib's window size, with a gzip header
_NOTICE = "fairwarning_notice"  # a cookie with a notice that the next page shows once
_NOTICE_SECONDS = 30
_NOTICE_CHARACTERS = 1000
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class Page:
    """The routes of the page. They call the same methods as the HTTP API."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._env = environment()

    def routes(self) -> list[Route]:
        """Return the routes of all pages, forms and static files."""
        return [
            Route("/static/{name}", self._static, methods=["GET"]),
            *(self._post(*form) for form in _FORMS),
            *(self._get(*view) for view in _VIEWS),
        ]

    # --- Views ---

    def _get(self, path: str, view: View) -> Route:
        async def handle(request: Request) -> Response:
            try:
                page_request = self._page_request(request)
                share = self._api.fleet.reader.share
                async with share.enter(page_request.actor, request.receive):
                    return await self._show(page_request, view)
            except FairwarningError as error:
                return await self._error(request, error)

        return Route(path, handle, methods=["GET"])

    def _page_request(self, request: Request) -> PageRequest:
        principal = access.authorize(request, self._api.parts.tokens.verifier).principal
        can_edit = principal.role is Role.OPERATOR
        return PageRequest(request, self._api, principal.name, can_edit=can_edit)

    async def _show(self, page_request: PageRequest, view: View) -> Response:
        content = await view(page_request)
        request = page_request.request
        if isinstance(content, FormDone):
            return _done(request, content)
        # A refresh by the script leaves the notice for the page that the form redirects to.
        cookie = "" if _from_script(request) else access.read_cookie(request, _NOTICE) or ""
        notice = unquote(cookie)[:_NOTICE_CHARACTERS]
        content = replace(content, data={"notice": notice, **content.data})
        response = await self._html(page_request, content)
        if notice:
            response.delete_cookie(_NOTICE)
        return response

    async def _html(
        self, page_request: PageRequest, content: PageContent, status: int = 200
    ) -> Response:
        here = _path(page_request.request)
        failed = page_request.failed
        data = {
            "logged_in": bool(page_request.actor),
            "can_edit": page_request.can_edit,
            "here": here,
            "back": here if page_request.request.method == "GET" else "/",
            "failed": failed,
            "clock": self._api.clock(),
            "notice": "",
            "version": _VERSION,
        }
        html = self._env.get_template(content.template).render(data | dict(content.data))
        body, headers = _compressed(html.encode(), page_request.request)
        return HTMLResponse(body, failed.status if failed else status, HEADERS | headers)

    # --- Forms ---

    def _post(self, path: str, form_handler: FormHandler, view: View) -> Route:
        async def handle(request: Request) -> Response:
            try:
                access.authorize(request, self._api.parts.tokens.verifier)
                form = await read_form(request)
                page_request = replace(self._page_request(request), form=form)  # still allowed
            except FairwarningError as error:
                return await self._error(request, error)
            try:
                with self._api.fleet.reader.share.write():
                    asked = await confirm.confirmation_needed(page_request, path)
                    return _done(request, asked or await form_handler(page_request))
            except FairwarningError as error:
                return await self._refused(page_request, view, error)

        return Route(path, handle, methods=["POST"])

    async def _refused(
        self, page_request: PageRequest, view: View, error: FairwarningError
    ) -> Response:
        """Show the form again with the error beside it, and keep its fields."""
        request, message = page_request.request, error.message
        if _from_script(request):
            return JSONResponse({"error": message}, error.status, HEADERS)
        failed = FormRefused(_path(request), message, error.status, dict(page_request.form.pairs))
        try:
            return await self._show(replace(page_request, failed=failed), view)
        except FairwarningError:  # the page of the form no longer exists
            return await self._error(request, error)

    async def _error(self, request: Request, error: FairwarningError) -> Response:
        if _from_script(request):
            headers = HEADERS | access.retry_header(error)
            return JSONResponse({"error": error.message}, error.status, headers)
        if isinstance(error, Unauthorized):
            return RedirectResponse(_login_path(request), _SEE_OTHER, HEADERS)
        title = "Not found" if isinstance(error, NotFound) else "Request failed"
        content = PageContent("error.html", {"title": title, "message": error.message})
        try:
            page_request = self._page_request(request)
        except FairwarningError:
            page_request = PageRequest(request, self._api)
        response = await self._html(page_request, content, error.status)
        response.headers.update(access.retry_header(error))
        return response

    async def unknown(self, request: Request) -> Response:
        """Answer a browser that asks for a page that does not exist."""
        return await self._error(request, NotFound("UnknownPage", "there is no such page"))

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _FILES:
            return Response(status_code=404)
        content = files(__package__).joinpath("static", name).read_bytes()
        headers = {**HEADERS, "Cache-Control": "no-cache"}
        return Response(content, media_type=_FILES[name], headers=headers)


def _compressed(body: bytes, request: Request) -> tuple[bytes, dict[str, str]]:
    """Compress a body if the client accepts it: a page is fetched again at each change."""
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return body, {}
    packed = zlib.compressobj(_COMPRESSION, wbits=_GZIP)
    return packed.compress(body) + packed.flush(), {"Content-Encoding": "gzip"}


def _path(request: Request) -> str:
    """Return the path, quoted as in links and forms: names may contain any printable character."""
    return quote(request.scope["path"])


def _login_path(request: Request) -> str:
    """Return the path of the login that leads back to the page that was asked for."""
    if request.method != "GET" or request.url.path == "/":
        return "/login"
    target = _path(request) + (f"?{request.url.query}" if request.url.query else "")
    return f"/login?{urlencode({'next': target})}"


def _from_script(request: Request) -> bool:
    """Return whether page.js sent the request; it shows the response itself."""
    return "x-page" in request.headers


def _done(request: Request, done: FormDone) -> Response:
    """Go to the next page with a notice; page.js shows the notice if the page stays the same."""
    if not _from_script(request):
        response: Response = RedirectResponse(done.to, _SEE_OTHER, HEADERS)
    else:
        result = {"notice": done.notice, "to": done.to, "key": new_key(), "again": done.again}
        response = JSONResponse(result, headers=HEADERS)
        if done.again or unquote(request.headers["x-page"]) == unquote(done.to):
            return response
    if not done.notice:
        return response
    notice = quote(done.notice[:_NOTICE_CHARACTERS], safe="")
    response.set_cookie(
        _NOTICE,
        notice,
        _NOTICE_SECONDS,
        httponly=True,
        samesite="strict",
        secure=access.uses_tls(request),
    )
    return response
