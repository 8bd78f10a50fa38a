"""Who may use the console: whoever has the token may do everything, others nothing."""

from hmac import compare_digest

from starlette.requests import Request

from fairwarning.core.errors import FairwarningError


class Unauthorized(FairwarningError):
    """No token, or a wrong one."""

    status = 401


def check(request: Request, token: str) -> None:
    """Refuse a request without the token."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not compare_digest(given.strip().encode(), token.encode()):
        text = "send the token of `fairwarning up --json` as Authorization: Bearer ..."
        raise Unauthorized("Unauthorized", text)
