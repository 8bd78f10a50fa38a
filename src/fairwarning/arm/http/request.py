"""An authenticated request to the control plane, its body, and its response.

Links of responses lead to the hosts under which clients reach this service, and never elsewhere.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairwarning.arm.catalogue import api_versions
from fairwarning.arm.http.azure_id import AzureId, ResourcePath
from fairwarning.arm.http.errors import azure_error
from fairwarning.core.model import Operation
from fairwarning.service.tokens import Principal

Body = dict[str, Any]
"""A JSON object."""

RESOURCES = "Microsoft.Resources"
BODY_BYTES = 4 * 1024 * 1024  # Azure's limit
BODY_VALUES = 20_000  # of JSON, but for templates: more take longer than others may wait (IB4)
RETRY_SECONDS = "1"
_IN_PATHS = "/:@!$&'()*+,;=~"  # characters of a path that are themselves in a URL
_VERSION = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(-[a-z]{1,20})?", re.ASCII)
_encode = msgspec.json.Encoder().encode


class ArmRequest:
    """A request to the control plane: the HTTP request, its route parameters and its principal."""

    def __init__(
        self,
        http: Request,
        params: dict[str, str],
        principal: Principal,
        base_url: str,
        version: str = "",
        *,
        target: ResourcePath | None = None,
    ) -> None:
        self.http = http
        self.path: str = http.scope["path"]  # `http.url` fails if the query string is not UTF-8
        self.params = params
        self.principal = principal
        self.actor = principal.name  # for the journal
        self.base_url = base_url  # of this service, for links
        self.version = version
        self.target = target
        self._raw: bytes | None = None  # the body
        self.options_read: dict[str, None] = {}  # of OData, by the handler

    @property
    def id(self) -> AzureId:
        """The resource that the path names; for a list, what has the resources."""
        assert self.target is not None
        return self.target.id

    @property
    def group(self) -> str:
        return self.params["group"]

    @property
    def name(self) -> str:
        return self.params["name"]

    def query(self, name: str) -> str:
        """Return a query parameter, or "" if it is missing. Names are case-insensitive."""
        if name.startswith("$"):
            self.options_read[name] = None
        for key, value in query_pairs(self.http):
            if key.lower() == name:
                return value
        return ""

    async def read(self) -> bytes:
        if self._raw is None:
            self._raw = await read_bytes(self.http)
        return self._raw

    async def body(self) -> Body:
        """Return the JSON object of the body."""
        return decode_body(await self.read())

    def link(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """Return a URL of this service."""
        encoded = urlencode({**(query or {}), "api-version": self.version})
        return f"{self.base_url}{quote(path, safe=_IN_PATHS)}?{encoded}"


def query_pairs(request: Request) -> list[tuple[str, str]]:
    """Return the query parameters. Clients send the same few again and again."""
    return _parse_query(request.scope["query_string"])


@lru_cache(maxsize=256)
def _parse_query(raw: bytes) -> list[tuple[str, str]]:
    return parse_qsl(raw.decode("latin-1"), keep_blank_values=True)


def api_version(request: Request) -> str:
    """Return the api-version of a request: a date, optionally with a suffix."""
    versions = [v for k, v in query_pairs(request) if k.lower() == "api-version"]
    if not versions or not versions[0]:
        raise azure_error("MissingApiVersionParameter")
    if len(versions) > 1 or not _VERSION.fullmatch(versions[0]):
        raise azure_error("InvalidApiVersionParameter/no date", version=versions[0][:40])
    return versions[0]


def check_api_version(kind: str, version: str, location: str) -> None:
    """Refuse an api-version that the provider of this type never had, as Azure does."""
    namespace, _, name = kind.partition("/")
    accepted = api_versions(namespace)
    if version in accepted:
        return
    supported = ", ".join(accepted)
    if namespace == RESOURCES:
        raise azure_error("InvalidApiVersionParameter/other", version=version, supported=supported)
    raise azure_error(
        "NoRegisteredProviderFound",
        location=location,
        version=version,
        kind=name.partition("/")[0],
        supported=supported,
    )


def check_values(raw: bytes, most: int) -> None:
    """Refuse a body that may have more values, before it is decoded."""
    if raw.count(b",") >= most:
        raise azure_error("RequestContentTooLarge/values", most=most)


def decode_body(raw: bytes) -> Body:
    """Return the JSON object of a body; an empty body is an empty object."""
    check_values(raw, BODY_VALUES)
    try:
        body: Body = msgspec.json.decode(raw or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise azure_error("InvalidRequestContent/no object") from error
    return body


async def read_bytes(request: Request) -> bytes:
    """Return a request body; refuse one of more than `BODY_BYTES`."""
    raw = bytearray()
    async for part in request.stream():
        raw += part
        if len(raw) > BODY_BYTES:
            raise azure_error("RequestContentTooLarge/request", most=BODY_BYTES)
    return bytes(raw)


def json_response(
    body: object, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return a JSON response."""
    return Response(_encode(body), status, headers, "application/json; charset=utf-8")


def accepted(request: ArmRequest, operation: Operation | None, location: str) -> Response:
    """Return 202 with both polling URLs; clients use either, and wait for Retry-After."""
    assert operation is not None
    return Response(b"", 202, operation_headers(request, operation, location))


def operation_headers(request: ArmRequest, operation: Operation, location: str) -> dict[str, str]:
    """Return the headers with the polling URLs of an operation."""
    path = (
        f"/subscriptions/{request.params['subscription']}/providers/Microsoft.Compute"
        f"/locations/{location}/operations/{operation.id}"
    )
    return {
        "Azure-AsyncOperation": request.link(path),
        "Location": request.link(path, {"monitor": "true"}),
        "Azure-AsyncNotification": "Enabled",
        "Retry-After": RETRY_SECONDS,
        "x-ms-request-id": operation.id,
    }


_HOST = re.compile(
    r"(?P<name>[A-Za-z0-9._\-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?", re.ASCII
)
_URLS = 100  # URLs that were computed before


class OwnHosts:
    """The configured names, localhost, loopback addresses, and the address of the connection."""

    def __init__(self, names: Iterable[str]) -> None:
        lower = [name.lower() for name in names]
        self._names = frozenset({"localhost", *(name for name in lower if name[:2] != "*.")})
        self._domains = frozenset(name[2:] for name in lower if name[:2] == "*.")
        self._url = lru_cache(_URLS)(self._compute)

    def base_url(self, request: Request) -> str:
        """Return the URL of this service: on the host that the client used, if it is our own.

        Any port is accepted: a forwarded port differs from the one that is listened on.
        """
        address, port = request.scope.get("server") or ("localhost", None)
        return self._url(",".join(request.headers.getlist("host")), address, port)

    def _compute(self, host: str, address: str, port: int | None) -> str:
        match = _HOST.fullmatch(host)
        if not match:
            raise azure_error("InvalidHost")
        if self._is_own(match["name"].strip("[]").lower().removesuffix("."), address):
            return f"https://{host}"
        own = f"[{address}]" if ":" in address else address
        return f"https://{own}:{port}" if port else f"https://{own}"

    def _is_own(self, name: str, address: str) -> bool:
        if name in self._names or name.partition(".")[2] in self._domains:
            return True
        try:
            ip = ip_address(name)
            return ip.is_loopback or ip == ip_address(address)
        except ValueError:
            return False
