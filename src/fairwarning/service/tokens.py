"""Signed access tokens and client secrets. Any holder of the key can issue them.

They are JSON web tokens (RFC 7519, HS256) with the claims that Azure's clients read. They expire
in real time, even if the fleet's clock is virtual. The servers decide what a principal may do;
this module only authenticates it.
"""

import base64
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.core.record import record
from fairwarning.service import keyfiles

KEY_BYTES = 32  # the length of a SHA-256 digest; a longer key is no stronger
TOKEN_BYTES = 8 * 1024  # half of the limit for request headers
ACCESS_SECONDS = 3600  # the lifetime of Azure's tokens
SECRET_SECONDS = 365 * 24 * 3600
SKEW_SECONDS = 5 * 60  # how far the clock may have been set back since a token was issued

_AUDIENCE = "https://management.azure.com/"
_ACCESS = "access"
_LOGIN = "login"


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


class Unauthorized(FairwarningError):
    """The token is missing, invalid or expired."""

    status = 401


class Forbidden(FairwarningError):
    """The caller is authenticated but lacks the permission."""

    status = 403


class Tokens:
    """Issues and verifies tokens. Only the exact text that this key signed is accepted."""

    def __init__(self, key: bytes, tenant: str, now: Callable[[], float] = time.time) -> None:
        assert len(key) >= KEY_BYTES
        self._key = key
        self._now = now
        self._fixed_claims = {
            "iss": f"https://sts.windows.net/{tenant}/",
            "aud": _AUDIENCE,
            "tid": tenant,
        }

    def __repr__(self) -> str:
        return f"Tokens(tenant={self._fixed_claims['tid']!r})"

    def access(self, principal: Principal, seconds: int = ACCESS_SECONDS) -> str:
        """Issue a bearer token that authenticates this principal."""
        return self._issue(_ACCESS, principal, seconds)

    def secret(self, principal: Principal, seconds: int = SECRET_SECONDS) -> str:
        """Issue a client secret, which is accepted only to log in as this principal."""
        return self._issue(_LOGIN, principal, seconds)

    def read(self, token: str) -> Principal:
        """Return the principal of an access token."""
        return self._principal(token, _ACCESS)

    def log_in(self, client: str, secret: str) -> Principal:
        """Return the principal of a client secret that belongs to this client."""
        principal = self._principal(secret, _LOGIN)
        if principal.name != client:
            text = "the client secret belongs to another client; log in with that client's name"
            raise Unauthorized("InvalidClient", text)
        return principal

    def _issue(self, use: str, principal: Principal, seconds: int) -> str:
        now = int(self._now())
        claims = {
            **self._fixed_claims,
            **dict.fromkeys(("oid", "appid", "sub"), principal.name),
            "roles": [principal.role],
            "role": principal.role,
            "group": principal.group,
            "use": use,
            "iat": now,
            "nbf": now,
            "exp": now + seconds,
        }
        signed = f"{_HEADER}.{_encode(_to_json(claims))}"
        token = f"{signed}.{self._signature(signed)}"
        if not principal.name or len(token) > TOKEN_BYTES:
            text = "the principal's name is empty or too long for a token; choose another name"
            raise Refused("BadPrincipal", text)
        return token

    def _principal(self, token: str, use: str) -> Principal:
        claims = self._claims(token)
        if any(claims.get(name) != value for name, value in self._fixed_claims.items()):
            raise _invalid("it was issued for another tenant or audience")
        if claims.get("use") != use:
            raise _invalid(f"it was not issued for {use}")
        self._check_time(claims)
        name, role, group = claims.get("sub"), claims.get("role"), claims.get("group")
        if not isinstance(name, str) or not name or not isinstance(group, str):
            raise _invalid("it does not name its principal")
        if not isinstance(role, str) or role not in list(Role):
            raise _invalid("its role is unknown")
        return Principal(name=name, role=Role(role), group=group)

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

    def _check_time(self, claims: dict[str, Any]) -> None:
        begins, ends = claims.get("nbf"), claims.get("exp")
        if type(begins) is not int or type(ends) is not int:  # True is an int as well
            raise _invalid("it has no valid nbf and exp claims")
        now = self._now()
        if now >= ends:
            text = "the token or client secret has expired; get a new one and send that"
            raise Unauthorized("ExpiredAuthenticationToken", text)
        if now < begins - SKEW_SECONDS:
            raise _invalid("it is dated in the future; check the clock")

    def _signature(self, signed: str) -> str:
        return _encode(hmac.digest(self._key, signed.encode("ascii"), "sha256"))


def _invalid(why: str) -> Unauthorized:
    text = f"the token or client secret is not valid: {why}; get a new one and send that"
    return Unauthorized("InvalidAuthenticationToken", text)


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
