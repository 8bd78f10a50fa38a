"""Who may use the console: operators everything, readers what changes nothing, others nothing."""

from starlette.requests import Request

from fairwarning.service.tokens import Forbidden, Role, Tokens, Unauthorized


def check(request: Request, tokens: Tokens) -> None:
    """Refuse a request without a token that is good for it."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not given.strip():
        text = "send the token of `fairwarning up --json` as Authorization: Bearer ..."
        raise Unauthorized("Unauthorized", text)
    principal = tokens.read(given.strip())
    reads = principal.role is Role.READER and not principal.group and request.method == "GET"
    if principal.role is not Role.OPERATOR and not reads:
        text = f"{principal.name!r} is a {principal.role}; this is for operators"
        raise Forbidden("Forbidden", text)
