"""Signed tokens: each has an id and one use (C7). Any holder of the key can sign them.

They are JSON web tokens (RFC 7519, HS256) with the claims that Azure's clients read. They expire
in real time, even if the fleet's clock is virtual. The servers decide what a principal may do;
this module only authenticates it. `issued_tokens` records and revokes tokens.
"""

import base64
import hashlib
import hmac
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Container
from enum import StrEnum
from pathlib import Path
from typing import Any

from fairwarning.core import checks
from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.core.record import record
from fairwarning.service import keyfiles

KEY_BYTES = 32  # the length of a SHA-256 digest; a longer key is no stronger
TOKEN_BYTES = 8 * 1024  # half of the limit for request headers
ID_BYTES = 8
VERIFIED_TOKENS = 1000  # kept in memory
SKEW_SECONDS = 5 * 60  # how far the clock may have been set back since a token was issued

_AUDIENCE = "https://management.azure.com/"


class Role(StrEnum):
    """The role of a principal; it determines its permissions."""

    OPERATOR = "operator"
    TENANT = "tenant"
    READER = "reader"


@record
class Principal:
    """An authenticated caller."""

    name: str
    role: Role
    group: str = ""  # limits access to this resource group; empty: the whole subscription


class TokenUse(StrEnum):
    """What a token is accepted for. It is worth nothing for another use."""

    API = "api"  # bearer token for the operator API and the control plane
    PAGE = "page"  # session cookie of a browser
    ARM = "arm"  # bearer token for the control plane, from logging in with a client secret
    LOGIN = "login"  # client secret: logs a client in at the control plane


LIFETIME_SECONDS = {
    TokenUse.API: 3600,
    TokenUse.PAGE: 12 * 3600,
    TokenUse.ARM: 3600,  # the lifetime of Azure's tokens
    TokenUse.LOGIN: 365 * 24 * 3600,
}


@record
class TokenClaims:
    """What a token says about itself. Times are whole seconds since the epoch."""

    id: str
    use: TokenUse
    principal: Principal
    created_at: int
    expires_at: int
    parent: str = ""  # id of the token that was exchanged for this one, and that revokes it too


class Unauthorized(FairwarningError):
    """The token is missing, invalid, expired or revoked."""

    status = 401


class Forbidden(FairwarningError):
    """The caller is authenticated but lacks the permission."""

    status = 403


class Tokens:
    """Signs and verifies tokens. Only the exact text that this key signed is accepted."""

    def __init__(self, key: bytes, tenant: str, now: Callable[[], float] = time.time) -> None:
        assert len(key) >= KEY_BYTES
        self.key_id = hashlib.sha256(b"key id" + key).hexdigest()[:8]
        self.now = now
        self.revoked: Container[str] = frozenset()
        """Ids of revoked tokens, in memory: verifying a token reads no database."""
        self._key = key
        self._verified: dict[str, TokenClaims] = {}
        """Tokens whose signature was verified before; clients send the same one again and again."""
        self._fixed_claims = {
            "iss": f"https://sts.windows.net/{tenant}/",
            "aud": _AUDIENCE,
            "tid": tenant,
        }

    def __repr__(self) -> str:
        return f"Tokens(tenant={self._fixed_claims['tid']!r})"

    def new(
        self,
        use: TokenUse,
        principal: Principal,
        seconds: int | None = None,
        *,
        parent: TokenClaims | None = None,
    ) -> TokenClaims:
        """Return the claims of a new token; it expires no later than its parent."""
        now = int(self.now())
        expires_at = now + (LIFETIME_SECONDS[use] if seconds is None else seconds)
        return TokenClaims(
            id=secrets.token_hex(ID_BYTES),
            use=use,
            principal=principal,
            created_at=now,
            expires_at=min(expires_at, parent.expires_at) if parent else expires_at,
            parent=parent.id if parent else "",
        )

    def sign(self, token: TokenClaims) -> str:
        """Return the token as text."""
        principal = token.principal
        if allowed := checks.known(principal.name):  # as the actor of every command
            raise Refused("BadPrincipal", f"name must be {allowed}")
        claims = {
            **self._fixed_claims,
            **dict.fromkeys(("oid", "appid", "sub"), principal.name),
            "roles": [principal.role],
            "role": principal.role,
            "group": principal.group,
            "use": token.use,
            "jti": token.id,
            "parent": token.parent,
            "iat": token.created_at,
            "nbf": token.created_at,
            "exp": token.expires_at,
        }
        signed = f"{_HEADER}.{_encode(_to_json(claims))}"
        text = f"{signed}.{self._signature(signed)}"
        if len(text) > TOKEN_BYTES:
            problem = "name and group are too long for a token; choose shorter ones"
            raise Refused("BadPrincipal", problem)
        return text

    def read(self, text: str, *uses: TokenUse) -> TokenClaims:
        """Verify a token that must have one of these uses, and return its claims."""
        token = self._verified.get(text)
        if token is None:
            token = self._verify(text)
            if len(self._verified) >= VERIFIED_TOKENS:
                self._verified.clear()
            self._verified[text] = token
        if token.use not in uses:
            raise _invalid(f"it was not issued for this use ({' or '.join(uses)})")
        self._check_time(token)
        if self.is_revoked(token):
            raise _invalid("it was revoked")
        return token

    def _verify(self, text: str) -> TokenClaims:
        """Return the claims of a token that this service has signed."""
        claims = self._claims(text)
        if any(claims.get(name) != value for name, value in self._fixed_claims.items()):
            raise _invalid("it was issued for another tenant or audience")
        use, begins, ends = (claims.get(name) for name in ("use", "nbf", "exp"))
        if not isinstance(use, str) or use not in list(TokenUse):
            raise _invalid("its use is unknown")
        if type(begins) is not int or type(ends) is not int:  # True is an int as well
            raise _invalid("it has no valid nbf and exp claims")
        return TokenClaims(
            id=_text(claims, "jti"),
            use=TokenUse(use),
            principal=_principal(claims),
            created_at=begins,
            expires_at=ends,
            parent=_text(claims, "parent", empty=True),
        )

    def is_revoked(self, token: TokenClaims) -> bool:
        """Whether the token, or the one that was exchanged for it, was revoked."""
        return token.id in self.revoked or token.parent in self.revoked

    def is_valid(self, token: TokenClaims) -> bool:
        """Whether a token that was read before is still accepted."""
        return self.now() < token.expires_at and not self.is_revoked(token)

    def log_in(self, client: str, secret: str) -> TokenClaims:
        """Verify a client secret that must belong to this client, and return its claims."""
        token = self.read(secret, TokenUse.LOGIN)
        if token.principal.name != client:
            text = "the client secret belongs to another client; log in with that client's name"
            raise Unauthorized("InvalidClient", text)
        return token

    def _claims(self, token: str) -> dict[str, Any]:
        """Verify header and signature, and return the claims.

        The encoded signature is compared, so each token has only one valid encoding.
        """
        if len(token) > TOKEN_BYTES or not token.isascii():
            raise _invalid("it was not issued by this service")
        signed, _, signature = token.rpartition(".")
        header, _, payload = signed.partition(".")
        genuine = hmac.compare_digest(signature, self._signature(signed))
        if header != _HEADER or not genuine:
            raise _invalid("it was not issued by this service")
        return _decode(payload)

    def _check_time(self, token: TokenClaims) -> None:
        """Refuse a token that is not valid now."""
        now = self.now()
        if now >= token.expires_at:
            text = "the token or client secret has expired; get a new one and send that"
            raise Unauthorized("ExpiredAuthenticationToken", text)
        ahead = token.created_at - now
        if ahead > SKEW_SECONDS:
            raise _invalid(
                f"it was issued {math.ceil(ahead)} seconds in the future by the clock of this"
                f" service, and at most {SKEW_SECONDS} are accepted; set both clocks (NTP)"
            )

    def _signature(self, signed: str) -> str:
        return _encode(hmac.digest(self._key, signed.encode("ascii"), "sha256"))


def _invalid(why: str) -> Unauthorized:
    text = f"the token or client secret is not valid: {why}; get a new one and send that"
    return Unauthorized("InvalidAuthenticationToken", text)


def _principal(claims: dict[str, Any]) -> Principal:
    role = claims.get("role")
    if not isinstance(role, str) or role not in list(Role):
        raise _invalid("its role is unknown")
    group = _text(claims, "group", empty=True)
    return Principal(name=_text(claims, "sub"), role=Role(role), group=group)


def _text(claims: dict[str, Any], name: str, *, empty: bool = False) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not (value or empty):
        raise _invalid(f"its {name} claim is missing or not a text")
    return value


def _to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _encode(content: bytes) -> str:
    """Encode as base64url without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode("ascii")


def _decode(payload: str) -> dict[str, Any]:
    """Decode a JSON object; reject any encoding other than the one `_encode` produces."""
    try:
        content = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = content = None
    if not isinstance(value, dict) or content is None or _encode(content) != payload:
        raise _invalid("it cannot be decoded")
    return value


_HEADER = _encode(_to_json({"alg": "HS256", "typ": "JWT"}))


# --- The key ----------------------------------------------------------------------------------


def signing_key(folder: Path) -> bytes:
    """Return the signing key in a data folder; create it at first use.

    Concurrent callers all get the same key.
    """
    path = folder / "signing.key"
    try:
        digits = keyfiles.read(path).strip()
    except FileNotFoundError:
        keyfiles.write_first(path, f"{secrets.token_hex(KEY_BYTES)}\n".encode("ascii"))
        digits = keyfiles.read(path).strip()
    if not re.fullmatch(rb"[0-9a-f]{%d}" % (2 * KEY_BYTES), digits):
        text = (
            f"{path} is not a key ({2 * KEY_BYTES} hexadecimal digits); restore it from a backup,"
            " or delete it to get a new one, which invalidates all tokens and client secrets"
        )
        raise Refused("BadKey", text)
    return bytes.fromhex(digits.decode("ascii"))
