"""Finding the service and logging in: what a client asks before it has a token.

It stands in for two servers that Azure has elsewhere: the one that describes a cloud, and the one
that gives tokens (as AD FS does, and as Entra does). Only who already has a client secret gets in.
"""

import base64
import binascii
import time
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import (
    ArmRequest,
    api_version,
    base_url,
    json_response,
    read_bytes,
)
from fairwarning.arm.http.routes import Route
from fairwarning.arm.resources import images
from fairwarning.service.config.settings import TENANT
from fairwarning.service.tokens import ACCESS_SECONDS, Unauthorized

NAME = "Fairwarning"
ADFS = "adfs"
TENANTS = frozenset({TENANT, ADFS, "common", "organizations"})
"""What a client may call the one directory there is."""
FORM_BYTES = 64 * 1024  # eight of the longest client secrets
FORM_FIELDS = 32

_LIST_SINCE = "2018-05-01"  # before, what describes a cloud was flat
_OBJECT_SINCE = "2022-09-01"  # since, it is only the cloud that is asked
_NOWHERE = "fairwarning.invalid"  # of what we do not have; a reserved name that leads nowhere
_ISSUER = f"https://sts.windows.net/{TENANT}/"  # as our tokens say


# --- The cloud ------------------------------------------------------------------------------------


async def _cloud(_context: ArmContext, request: ArmRequest) -> Response:
    """What this cloud's servers are called, in the shape of the version that is asked for."""
    version = api_version(request.http) if request.query("api-version") else _OBJECT_SINCE
    base = base_url(request.http)
    if version >= _OBJECT_SINCE:
        return json_response(_described(base))
    return json_response([_described(base)] if version >= _LIST_SINCE else _flat(base))


def _authentication(base: str) -> dict[str, Any]:
    """The login server. These tenant and provider keep clients from taking us for Azure Stack."""
    return {
        "loginEndpoint": f"{base}/{ADFS}",
        "audiences": [base, "https://management.azure.com/"],
        "tenant": "common",
        "identityProvider": "AAD",
    }


def _described(base: str) -> dict[str, Any]:
    home = f"{base}/"
    others = (
        "portal", "resourceManager", "media", "graph", "graphAudience", "batch", "sqlManagement",
        "gallery", "activeDirectoryDataLake", "microsoftGraphResourceId", "appInsightsResourceId",
        "appInsightsTelemetryChannelResourceId", "attestationResourceId", "logAnalyticsResourceId",
        "ossrdbmsResourceId", "synapseAnalyticsResourceId",
    )  # fmt: skip
    suffixes = {
        "storage": "storage",
        "keyVaultDns": "vault",
        "mhsmDns": "managedhsm",
        "acrLoginServer": "registry",
        "sqlServerHostname": "database",
        "azureDataLakeStoreFileSystem": "datalake",
        "azureDataLakeAnalyticsCatalogAndJob": "analytics",
    }
    return {
        "name": NAME,
        **dict.fromkeys(others, home),
        "authentication": _authentication(base),
        "vmImageAliasDoc": f"{base}/aliases.json",
        "suffixes": {name: f"{part}.{_NOWHERE}" for name, part in suffixes.items()},
    }


def _flat(base: str) -> dict[str, Any]:
    names = ("galleryEndpoint", "graphEndpoint", "portalEndpoint")
    return {**dict.fromkeys(names, f"{base}/"), "authentication": _authentication(base)}


async def _aliases(_context: ArmContext, _request: ArmRequest) -> Response:
    return json_response(images.aliases())


# --- The login server -----------------------------------------------------------------------------


async def _instance(_context: ArmContext, request: ArmRequest) -> Response:
    """Whether an authority is one of this cloud's: that is what clients ask first, if at all."""
    base = base_url(request.http)
    named, tenant = _parsed(request.query("authorization_endpoint"))
    if not named or named != _parsed(base)[0]:
        return _refused("invalid_instance", "the authorization_endpoint is not this service's")
    if tenant not in TENANTS:
        return _unknown_tenant()
    home = _home(base, tenant)
    version = "" if tenant == ADFS else "/v2.0"
    host = base.removeprefix("https://")
    return json_response(
        {
            "tenant_discovery_endpoint": f"{home}{version}/.well-known/openid-configuration",
            "api-version": "1.1",
            "metadata": [{"preferred_network": host, "preferred_cache": host, "aliases": [host]}],
        }
    )


def _parsed(url: str) -> tuple[str, str]:
    """The host and the tenant of an authority's URL. Clients leave the port out of some."""
    try:
        split = urlsplit(url)
        return (split.hostname or "").lower(), split.path.strip("/").split("/")[0].lower()
    except ValueError:
        return "", ""


async def _openid(_context: ArmContext, request: ArmRequest) -> Response:
    """Where to log in, as OpenID Connect's discovery tells it."""
    tenant = request.params["tenant"].lower()
    if tenant not in TENANTS:
        return _unknown_tenant()
    home = _home(base_url(request.http), tenant)
    version = "/v2.0" if "/v2.0/" in request.path.lower() else ""
    return json_response(
        {
            "issuer": _ISSUER,
            "token_endpoint": f"{home}/oauth2{version}/token",
            "authorization_endpoint": f"{home}/oauth2{version}/authorize",
            "device_authorization_endpoint": f"{home}/oauth2{version}/devicecode",
            "jwks_uri": f"{home}/discovery{version}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
            "grant_types_supported": ["client_credentials"],
            "response_types_supported": ["token"],
            "subject_types_supported": ["pairwise"],
            "id_token_signing_alg_values_supported": ["HS256"],
        }
    )


def _home(base: str, tenant: str) -> str:
    """Where a tenant's logins are; the names that stand for any tenant stand for the one."""
    return f"{base}/{tenant if tenant == ADFS else TENANT}"


async def _keys(_context: ArmContext, _request: ArmRequest) -> Response:
    """None: nobody but this service can check its tokens, and nobody else has to."""
    return json_response({"keys": []})


# --- Tokens (RFC 6749) ----------------------------------------------------------------------------


class _LoginError(Exception):
    """The request for a token is wrong."""

    def __init__(self, text: str, code: str = "invalid_request", status: int = 400) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.status = status


async def _token(context: ArmContext, request: ArmRequest) -> Response:
    """A token for a client and its secret."""
    if request.params["tenant"].lower() not in TENANTS:
        return _unknown_tenant()
    try:
        form = await _form(request.http)
        client, secret = _credentials(form, request.http)
        _check_grant(form)
        principal = context.tokens.log_in(client, secret)
    except _LoginError as wrong:
        return _refused(wrong.code, wrong.text, wrong.status)
    except Unauthorized as error:
        return _refused("invalid_client", error.message, error.status)
    return json_response(_defaults(context.tokens.access(principal), form.get("resource", "")))


def _defaults(token: str, resource: str) -> dict[str, Any]:
    """As Entra answers; its first version, which names a resource, spells numbers as strings."""
    fixed = {"token_type": "Bearer", "access_token": token}
    if not resource:
        return {**fixed, "expires_in": ACCESS_SECONDS, "ext_expires_in": ACCESS_SECONDS}
    now = int(time.time())
    return {
        **fixed,
        "expires_in": str(ACCESS_SECONDS),
        "ext_expires_in": str(ACCESS_SECONDS),
        "expires_on": str(now + ACCESS_SECONDS),
        "not_before": str(now),
        "resource": resource,
    }


async def _form(request: Request) -> dict[str, str]:
    """The parameters that were sent. None may be there twice, and an empty one is none."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise _LoginError("send the parameters as application/x-www-form-urlencoded")
    try:
        raw = await read_bytes(request)
        if len(raw) > FORM_BYTES:
            raise _LoginError(f"the parameters have more than {FORM_BYTES} bytes")
        pairs = parse_qsl(raw.decode(), max_num_fields=FORM_FIELDS, errors="strict")
    except (ArmError, ValueError) as error:
        raise _LoginError("the parameters cannot be read: too many, or not UTF-8") from error
    form = dict(pairs)
    if len(form) < len(pairs):
        raise _LoginError("a parameter is given twice; give each once")
    return form


def _credentials(form: dict[str, str], request: Request) -> tuple[str, str]:
    """Who the client says it is, and its secret: in the form or, as RFC 6749 likes it, not."""
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    client, secret = form.get("client_id", ""), form.get("client_secret", "")
    if scheme.lower() == "basic":
        named, basic = _basic(encoded)
        if secret or client not in {"", named}:
            raise _LoginError("the client is named twice; send either client_secret or Basic")
        client, secret = named, basic
    if not client:
        raise _LoginError("client_id is missing")
    if not secret:
        text = "client_secret is missing; there is no other way to prove who the client is"
        raise _LoginError(text, "invalid_client", Unauthorized.status)
    return client, secret


def _basic(encoded: str) -> tuple[str, str]:
    try:
        plain = base64.b64decode(encoded.strip(), validate=True).decode()
    except (ValueError, binascii.Error):
        plain = ""
    client, colon, secret = plain.partition(":")
    if not colon:
        text = "the Authorization header cannot be read; send client_id and client_secret"
        raise _LoginError(text, "invalid_client", Unauthorized.status)
    return unquote_plus(client), unquote_plus(secret)


def _check_grant(form: dict[str, str]) -> None:
    grant = form.get("grant_type", "")
    if not grant:
        raise _LoginError("grant_type is missing; send client_credentials")
    if grant != "client_credentials":
        text = "this grant_type is not supported; log in as a service principal"
        raise _LoginError(text, "unsupported_grant_type")


def _unknown_tenant() -> Response:
    text = f"there is no such tenant here; the one there is, is {TENANT}"
    return _refused("invalid_request", text)


def _refused(code: str, text: str, status: int = 400) -> Response:
    """As RFC 6749 words it."""
    unknown = status == Unauthorized.status
    headers = {"WWW-Authenticate": 'Basic realm="fairwarning"'} if unknown else {}
    return json_response({"error": code, "error_description": text}, status, headers)


# `adfs` is a tenant's name as well; some clients put another behind it.
_HOMES = ("/{tenant}", f"/{ADFS}/{{tenant}}")
_VERSIONS = ("", "/v2.0")

ROUTES: tuple[Route, ...] = (
    Route("GET", "/metadata/endpoints", _cloud, public=True),
    Route("GET", "/aliases.json", _aliases, public=True),
    Route("GET", "/common/discovery/instance", _instance, public=True),
    *(
        route
        for home in _HOMES
        for version in _VERSIONS
        for route in (
            Route("GET", f"{home}{version}/.well-known/openid-configuration", _openid, public=True),
            Route("POST", f"{home}/oauth2{version}/token", _token, public=True),
            Route("GET", f"{home}/discovery{version}/keys", _keys, public=True),
        )
    ),
)
