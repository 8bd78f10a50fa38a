"""Access control: operators may do everything, readers may only read, other roles get nothing.

Programs send a bearer token with each request. A browser gets a session cookie from `/login`.
Neither is accepted in place of the other (C7).
"""

from starlette.requests import Request
from starlette.responses import Response

from fairwarning.service.issued_tokens import SignedToken
from fairwarning.service.tokens import (
    Forbidden,
    Role,
    TokenClaims,
    Tokens,
    TokenUse,
    Unauthorized,
)

COOKIE = "fairwarning"


def authorize(request: Request, tokens: Tokens) -> TokenClaims:
    """Return the token of a request; refuse it without a token that permits the request."""
    token = authenticate(request, tokens)
    principal = token.principal
    may_read = (
        principal.role is Role.READER and not principal.group and request.method in {"GET", "HEAD"}
    )
    if principal.role is not Role.OPERATOR and not may_read:
        text = f"{principal.name!r} has the role {principal.role}; use an operator's token"
        raise Forbidden("Forbidden", text)
    return token


def authenticate(request: Request, tokens: Tokens) -> TokenClaims:
    """Return the token of a request: its bearer token, or else its session cookie."""
    header = request.headers.get("authorization")
    if header is None and COOKIE in request.cookies:
        return tokens.read(request.cookies[COOKIE], TokenUse.PAGE)
    scheme, _, text = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        problem = "send the token of `fairwarning up --json` as Authorization: Bearer ..."
        raise Unauthorized("Unauthorized", problem)
    return tokens.read(text.strip(), TokenUse.API)


def set_session_cookie(response: Response, session: SignedToken, *, secure: bool) -> None:
    """Log the browser in until the session expires; `secure`: send the cookie over TLS only."""
    claims = session.claims
    response.set_cookie(
        COOKIE,
        session.text,
        max_age=claims.expires_at - claims.created_at,
        httponly=True,
        secure=secure,
        samesite="strict",
    )
