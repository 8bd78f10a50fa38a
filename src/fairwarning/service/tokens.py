"""Our own signed tokens: who asks, as whom, and until when. Whoever has the key can make them.

They are JSON web tokens (RFC 7519, HS256), because Azure's clients look inside for what Azure's
would say. They live in real time, also where the fleet's clock is virtual. What a principal may
do is decided where it asks for it, not here.
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

KEY_BYTES = 32  # as many as SHA-256 gives: a longer key is no stronger
TOKEN_BYTES = 8 * 1024  # half of what a request's headers may be
ACCESS_SECONDS = 3600  # as Azure's
SECRET_SECONDS = 365 * 24 * 3600
SKEW_SECONDS = 5 * 60  # a clock may have been set back by this since it made a token

_AUDIENCE = "https://management.azure.com/"
_ACCESS = "access"
_LOGIN = "login"


class Role(StrEnum):
    """What a principal is, and so what it may do."""

    OPERATOR = "operator"
    TENANT = "tenant"
    READER = "reader"


@record
class Principal:
    """Who asks, and what of."""

    name: str
    role: Role
    group: str = ""  # the resource group it is bound to; empty: the whole subscription


class Unauthorized(FairwarningError):
    """Nobody we know: no token, or none that is good (any more)."""

    status = 401


class Forbidden(FairwarningError):
    """Somebody we know, who may not do this."""

    status = 403


class Tokens:
    """Makes tokens and reads them. Only what this key has signed, letter by letter, is one."""

    def __init__(self, key: bytes, tenant: str, now: Callable[[], float] = time.time) -> None:
        assert len(key) >= KEY_BYTES
        self._key = key
        self._now = now
        self._fixed = {
            "iss": f"https://sts.windows.net/{tenant}/",
            "aud": _AUDIENCE,
            "tid": tenant,
        }

    def __repr__(self) -> str:
        return f"Tokens(tenant={self._fixed['tid']!r})"

    def access(self, principal: Principal, seconds: int = ACCESS_SECONDS) -> str:
        """A bearer token: whoever sends it is this principal."""
        return self._made(_ACCESS, principal, seconds)

    def secret(self, principal: Principal, seconds: int = SECRET_SECONDS) -> str:
        """A client secret: it is good for logging in as this principal, and for nothing else."""
        return self._made(_LOGIN, principal, seconds)

    def read(self, token: str) -> Principal:
        """Whose access token this is."""
        return self._principal(token, _ACCESS)

    def log_in(self, client: str, secret: str) -> Principal:
        """Whose client secret this is, if it is that client's."""
        principal = self._principal(secret, _LOGIN)
        if principal.name != client:
            text = "the client secret is another client's; log in with the name it was made for"
            raise Unauthorized("InvalidClient", text)
        return principal

    def _made(self, use: str, principal: Principal, seconds: int) -> str:
        now = int(self._now())
        claims = {
            **self._fixed,
            **dict.fromkeys(("oid", "appid", "sub"), principal.name),
            "roles": [principal.role],
            "role": principal.role,
            "group": principal.group,
            "use": use,
            "iat": now,
            "nbf": now,
            "exp": now + seconds,
        }
        signed = f"{_HEADER}.{_encoded(_compact(claims))}"
        token = f"{signed}.{self._signature(signed)}"
        if not principal.name or len(token) > TOKEN_BYTES:
            text = "a principal needs a name, and one that fits into a token; choose another"
            raise Refused("BadPrincipal", text)
        return token

    def _principal(self, token: str, use: str) -> Principal:
        claims = self._claims(token)
        if any(claims.get(name) != value for name, value in self._fixed.items()):
            raise _invalid("it is for another tenant or audience")
        if claims.get("use") != use:
            raise _invalid(f"it is not for {use}")
        self._check_time(claims)
        name, role, group = claims.get("sub"), claims.get("role"), claims.get("group")
        if not isinstance(name, str) or not name or not isinstance(group, str):
            raise _invalid("it does not say whose it is")
        if not isinstance(role, str) or role not in list(Role):
            raise _invalid("its role is unknown")
        return Principal(name=name, role=Role(role), group=group)

    def _claims(self, token: str) -> dict[str, Any]:
        """What a token says that has our header and our signature.

        The signature is compared as it is spelled: no token has a second spelling.
        """
        if len(token) > TOKEN_BYTES or not token.isascii():
            raise _invalid("it is no token of this service")
        signed, _, signature = token.rpartition(".")
        header, _, payload = signed.partition(".")
        genuine = hmac.compare_digest(signature, self._signature(signed))
        if header != _HEADER or not genuine:
            raise _invalid("it is no token of this service")
        return _decoded(payload)

    def _check_time(self, claims: dict[str, Any]) -> None:
        begins, ends = claims.get("nbf"), claims.get("exp")
        if type(begins) is not int or type(ends) is not int:  # True is an int as well
            raise _invalid("it does not say when it ends")
        now = self._now()
        if now >= ends:
            text = "the token or client secret has expired; get a new one and send that"
            raise Unauthorized("ExpiredAuthenticationToken", text)
        if now < begins - SKEW_SECONDS:
            raise _invalid("it was made later than the present time; check the clock")

    def _signature(self, signed: str) -> str:
        return _encoded(hmac.digest(self._key, signed.encode("ascii"), "sha256"))


def _invalid(why: str) -> Unauthorized:
    text = f"the token or client secret is not valid: {why}; get a new one and send that"
    return Unauthorized("InvalidAuthenticationToken", text)


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _encoded(content: bytes) -> str:
    """Base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode("ascii")


def _decoded(payload: str) -> dict[str, Any]:
    """An object, spelled in the one way in which it is encoded."""
    try:
        content = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = content = None
    if not isinstance(value, dict) or content is None or _encoded(content) != payload:
        raise _invalid("it cannot be read")
    return value


_HEADER = _encoded(_compact({"alg": "HS256", "typ": "JWT"}))


# --- The key ----------------------------------------------------------------------------------


def key_of(folder: Path) -> bytes:
    """The key of the service that keeps its data there, made at first use.

    However many ask at once, they all get the same.
    """
    path = folder / "signing.key"
    try:
        digits = keyfiles.read(path).strip()
    except FileNotFoundError:
        keyfiles.write_first(path, f"{secrets.token_hex(KEY_BYTES)}\n".encode("ascii"))
        digits = keyfiles.read(path).strip()
    if not re.fullmatch(rb"[0-9a-f]{%d}" % (2 * KEY_BYTES), digits):
        text = (
            f"{path} is not a key ({2 * KEY_BYTES} hexadecimal digits); put it back from a backup,"
            " or delete it to get a new one: the tokens and client secrets made so far end then"
        )
        raise Refused("BadKey", text)
    return bytes.fromhex(digits.decode("ascii"))
