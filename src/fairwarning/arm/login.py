"""Discovery and login: the requests of a client before it has a token.

On Azure these are separate servers: the cloud metadata endpoint, and the token endpoint of AD FS or
Entra. Only the client credentials grant is supported.
"""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from fairwarning.arm.catalogue import document
from fairwarning.arm.compute import images
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, api_version, json_response, read_bytes
from fairwarning.arm.http.routes import Route, fixed
from fairwarning.arm.types.context import ArmContext
from fairwarning.core.errors import Refused
from fairwarning.service.config.settings import TENANT
from fairwarning.service.issued_tokens import SignedToken
from fairwarning.service.tokens import TOKEN_BYTES, TokenUse, Unauthorized

ADFS = "adfs"
TENANTS = frozenset({TENANT, ADFS, "common", "organizations"})
"""The names of the only tenant."""
FORM_BYTES = TOKEN_BYTES + 2048  # the longest client secret, and the rest
FORM_FIELDS = 32

_AZURE_STACK_VERSION = "1.0"  # of clients that know Azure Stack; the flat object
_LIST_SINCE = "2018-05-01"  # a list of clouds since this api-version, a flat object before
_OBJECT_SINCE = "2022-09-01"  # the object of a single cloud since this api-version


async def _metadata(_context: ArmContext, request: ArmRequest) -> Response:
    """Return the endpoints of this cloud, in the form of the requested api-version."""
    base = request.base_url
    version = request.query("api-version")
    if version != _AZURE_STACK_VERSION:
        version = api_version(request.http) if version else _OBJECT_SINCE
    if version >= _OBJECT_SINCE:
        return json_response(_cloud("cloud", base))
    listed = version >= _LIST_SINCE
    return json_response([_cloud("cloud", base)] if listed else _cloud("legacyCloud", base))


def _cloud(name: str, base: str) -> dict[str, Any]:
    """Return the endpoints of this cloud. With another login server, clients assume Azure Stack."""
    return document(name, base=base, authentication=document("authentication", base=base))


async def _discover_instance(_context: ArmContext, request: ArmRequest) -> Response:
    """Confirm that an authority belongs to this cloud; some clients check this before login."""
    base = request.base_url
    host, tenant = _split_authority(request.query("authorization_endpoint"))
    if not host or host != _split_authority(base)[0]:
        text = "the authorization_endpoint does not belong to this service"
        return _error_response("invalid_instance", text)
    if tenant not in TENANTS:
        return _unknown_tenant()
    tenant_url = _tenant_url(base, tenant)
    version = "" if tenant == ADFS else "/v2.0"
    network = base.removeprefix("https://")
    return json_response(
        document("instanceDiscovery", url=tenant_url, version=version, network=network)
    )


def _split_authority(url: str) -> tuple[str, str]:
    """Return the host and the tenant of an authority's URL; some clients omit the port."""
    try:
        split = urlsplit(url)
        return (split.hostname or "").lower(), split.path.strip("/").split("/")[0].lower()
    except ValueError:
        return "", ""


async def _openid_configuration(_context: ArmContext, request: ArmRequest) -> Response:
    tenant = request.params["tenant"].lower()
    if tenant not in TENANTS:
        return _unknown_tenant()
    tenant_url = _tenant_url(request.base_url, tenant)
    version = "/v2.0" if "/v2.0/" in request.path.lower() else ""
    return json_response(
        document("openIdConfiguration", tenant=TENANT, url=tenant_url, version=version)
    )


def _tenant_url(base: str, tenant: str) -> str:
    """Return the URL of a tenant; `common` and `organizations` mean the only tenant."""
    return f"{base}/{tenant if tenant == ADFS else TENANT}"


async def _token(context: ArmContext, request: ArmRequest) -> Response:
    if request.params["tenant"].lower() not in TENANTS:
        return _unknown_tenant()
    try:
        form = await _read_form(request.http)
        client, secret = _credentials(form)
        client_secret = context.tokens.verifier.log_in(client, secret)
    except Unauthorized as error:
        return _error_response("invalid_client", error.message, error.status)
    except Refused as error:
        return _error_response(error.code, error.message)
    token = await context.tokens.issue(TokenUse.ARM, client_secret.principal, parent=client_secret)
    return json_response(_token_response(token, form.get("resource", "")))


def _token_response(token: SignedToken, resource: str) -> dict[str, Any]:
    """Return Entra's token response; v1.0, which names a resource, has numbers as strings."""
    claims = token.claims
    seconds = claims.expires_at - claims.created_at
    common = {"token_type": "Bearer", "access_token": token.text}
    if not resource:
        return {**common, "expires_in": seconds, "ext_expires_in": seconds}
    return {
        **common,
        "expires_in": str(seconds),
        "ext_expires_in": str(seconds),
        "expires_on": str(claims.expires_at),
        "not_before": str(claims.created_at),
        "resource": resource,
    }


def _invalid(text: str) -> Refused:
    return Refused("invalid_request", text)


async def _read_form(request: Request) -> dict[str, str]:
    """Return the form parameters; refuse duplicates, and ignore empty ones."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise _invalid("send the parameters as application/x-www-form-urlencoded")
    try:
        raw = await read_bytes(request)
        if len(raw) > FORM_BYTES:
            raise _invalid(f"the form has more than {FORM_BYTES} bytes; send a shorter one")
        pairs = parse_qsl(raw.decode(), max_num_fields=FORM_FIELDS, errors="strict")
    except (ArmError, ValueError) as error:
        text = f"the form cannot be parsed: more than {FORM_FIELDS} parameters, or not UTF-8"
        raise _invalid(text) from error
    form = dict(pairs)
    if len(form) < len(pairs):
        raise _invalid("the form repeats a parameter; send each parameter once")
    return form


def _credentials(form: dict[str, str]) -> tuple[str, str]:
    """Return client id and secret, as Azure's tools send them."""
    client, secret = form.get("client_id", ""), form.get("client_secret", "")
    if not client:
        raise _invalid("client_id is missing; send it in the form")
    if not secret:
        text = "client_secret is missing; no other client authentication is supported"
        raise Unauthorized("invalid_client", text)
    grant = form.get("grant_type", "")
    if not grant:
        raise _invalid("grant_type is missing; send client_credentials")
    if grant != "client_credentials":
        text = "this grant_type is not supported; send client_credentials (a service principal)"
        raise Refused("unsupported_grant_type", text)
    return client, secret


def _unknown_tenant() -> Response:
    text = f"the tenant does not exist; the only tenant is {TENANT}"
    return _error_response("invalid_request", text)


def _error_response(code: str, text: str, status: int = 400) -> Response:
    """Return an error response as in RFC 6749."""
    unauthorized = status == Unauthorized.status
    headers = {"WWW-Authenticate": 'Bearer realm="fairwarning"'} if unauthorized else {}
    return json_response({"error": code, "error_description": text}, status, headers)


# `adfs` is also the name of a tenant; some clients add another tenant after it.
_TENANT_PATHS = ("/{tenant}", f"/{ADFS}/{{tenant}}")
_VERSIONS = ("", "/v2.0")
_no_keys = fixed(lambda _context: {"keys": []})  # only this service verifies its tokens

ROUTES: tuple[Route, ...] = (
    Route("GET", "/metadata/endpoints", _metadata, public=True),
    Route("GET", "/aliases.json", fixed(images.aliases), public=True),
    Route("GET", "/common/discovery/instance", _discover_instance, public=True),
    *(
        route
        for path in _TENANT_PATHS
        for version in _VERSIONS
        for route in (
            Route(
                "GET",
                f"{path}{version}/.well-known/openid-configuration",
                _openid_configuration,
                public=True,
            ),
            Route("POST", f"{path}/oauth2{version}/token", _token, public=True),
            Route("GET", f"{path}/discovery{version}/keys", _no_keys, public=True),
        )
    ),
)
