"""Authorization: every route, with every kind of principal and of invalid token (C3)."""

import base64
import json
import logging
import time
from collections.abc import Iterator
from functools import cache

import pytest
from starlette.types import Message

from fairwarning.service.config.settings import TENANT
from fairwarning.service.tokens import Principal, Role, Tokens, TokenUse
from tests.arm.everything import (
    ANN,
    BOB,
    OURS,
    READER,
    THEIRS,
    Everything,
    FleetSnapshot,
    RouteRequest,
    state,
)
from tests.campaigns import each_step, split
from tests.fixtures.arm import HOST, KEY, OPERATOR, SUBSCRIPTION, VERSION, ArmHarness
from tests.fixtures.http import Response, asgi_scope
from tests.fixtures.tokens import sign_token

pytestmark = pytest.mark.spec("C3")

PUBLIC = {
    "GET /metadata/endpoints",
    "GET /aliases.json",
    "GET /common/discovery/instance",
    "GET /{tenant}/.well-known/openid-configuration",
    "GET /{tenant}/v2.0/.well-known/openid-configuration",
    "GET /{tenant}/discovery/keys",
    "GET /{tenant}/discovery/v2.0/keys",
    "POST /{tenant}/oauth2/token",
    "POST /{tenant}/oauth2/v2.0/token",
    "GET /adfs/{tenant}/.well-known/openid-configuration",
    "GET /adfs/{tenant}/v2.0/.well-known/openid-configuration",
    "GET /adfs/{tenant}/discovery/keys",
    "GET /adfs/{tenant}/discovery/v2.0/keys",
    "POST /adfs/{tenant}/oauth2/token",
    "POST /adfs/{tenant}/oauth2/v2.0/token",
}
"""The routes that need no token. Add to them only after a security review."""

OPAQUE = {"operation", "event"}  # ids of the service, which are case-sensitive
METHODS = ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS", "TRACE", "get", "BREW")
QUIET = {  # POSTs that change nothing in this fleet
    "register", "validate", "exporttemplate", "manualupgrade", "reapply", "whatif",
}  # fmt: skip


@pytest.fixture(scope="module")
def snapshot() -> FleetSnapshot:
    """Create the filled fleet once for all tests of this module."""
    return FleetSnapshot()


@pytest.fixture(autouse=True)
def no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The log contains no token, no secret and no key, whatever a test does."""
    with caplog.at_level(logging.DEBUG, "fairwarning"):
        yield
    for record in caplog.records:
        text = f"{record.getMessage()} {record.args} {record.exc_text}"
        assert not any(secret in text for secret in _secrets()), text


def _tokens() -> Tokens:
    return Tokens(KEY, TENANT)


@cache
def _secrets() -> list[str]:
    """Return the start of every token, the signing key in all forms, and secrets of bodies."""
    header = sign_token(_tokens(), OPERATOR).partition(".")[0]
    return [header, KEY.decode(), base64.b64encode(KEY).decode(), KEY.hex(), "never-kept"]


def assert_error(response: Response, label: str) -> None:
    """Check that the response is an error in Azure's form and contains no secrets."""
    assert response.status >= 400, label
    assert response.headers["cache-control"] == "no-store", label
    if response.body:
        assert set(response.json) == {"error"}, label
        assert set(response.json["error"]) == {"code", "message"}, label
        assert response.error_code.isalpha(), label
        assert 0 < len(response.error_message) <= 1_000, label
    assert_no_secrets(response, label)


def assert_no_secrets(response: Response, label: str) -> None:
    """Check that the response contains no secrets."""
    text = f"{response.headers} {response.body.decode()}"
    assert not any(secret in text for secret in _secrets()), label


# --- The table ------------------------------------------------------------------------------------


def test_public_routes(arm: ArmHarness) -> None:
    """Only login and discovery need no token."""
    routes = [route for route in arm.app.table.routes if route.public]
    assert {f"{route.method} {route.path}" for route in routes} == PUBLIC


def test_every_route_works(snapshot: FleetSnapshot) -> None:
    """The operator's requests succeed and change state, so the refusals below are meaningful."""
    with snapshot.restore() as first:
        requests = first.requests()
    for request in requests:
        with snapshot.restore() as arm:
            before = state(arm)
            response = arm.call(request)
            if request.names_nothing:
                assert response.status in {204, 404}, request.label
                continue
            assert 200 <= response.status < 300, (request.label, response.body)
            changes = request.route.writes and request.path.rpartition("/")[2] not in QUIET
            assert (state(arm) != before) is changes, request.label
            assert_no_secrets(response, request.label)


# --- Unauthenticated requests ---------------------------------------------------------------------


def _unsigned() -> str:
    """Return a token with the algorithm `none`."""
    _, claims, _ = sign_token(_tokens(), OPERATOR).split(".")
    header = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    return f"{header}.{claims}."


def _promoted() -> str:
    """Return a reader's token with the operator's claims."""
    header, claims, signature = sign_token(_tokens(), READER).split(".")
    payload = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    payload |= {"role": "operator", "roles": ["operator"]}
    encoded = base64.urlsafe_b64encode(json.dumps(payload, separators=(",", ":")).encode())
    return f"{header}.{encoded.rstrip(b'=').decode()}.{signature}"


def _invalid_headers() -> dict[str, str]:
    """Return invalid Authorization headers; an empty header is not sent."""
    good = sign_token(_tokens(), OPERATOR)
    past, future = time.time() - 7_200, time.time() + 7_200
    return {
        "none": "",
        "empty": "Bearer ",
        "garbage": "Bearer garbage",
        "dots": "Bearer ...",
        "not-ascii": "Bearer \xe9\xff.\xe9.\xe9",
        "too-long": f"Bearer {'a' * 100_000}",
        "expired": f"Bearer {sign_token(Tokens(KEY, TENANT, lambda: past), OPERATOR)}",
        "not-yet": f"Bearer {sign_token(Tokens(KEY, TENANT, lambda: future), OPERATOR)}",
        "other-key": f"Bearer {sign_token(Tokens(b'x' * 32, TENANT), OPERATOR)}",
        "other-tenant": f"Bearer {sign_token(Tokens(KEY, 'another'), OPERATOR)}",
        "client-secret": f"Bearer {sign_token(_tokens(), OPERATOR, TokenUse.LOGIN)}",
        "unsigned": f"Bearer {_unsigned()}",
        "promoted": f"Bearer {_promoted()}",
        "cut": f"Bearer {good[:-1]}",
        "longer": f"Bearer {good}A",
        "twice": f"Bearer {good} {good}",
        "basic": f"Basic {good}",
        "basic-pair": f"Basic {base64.b64encode(f'operator:{good}'.encode()).decode()}",
        "bare": good,
        "glued": f"Bearer{good}",
    }


_NONE, *_INVALID = _invalid_headers()
_CASES = (_NONE, 1), *((case, step) for step in (7, 1) for case in _INVALID)


@pytest.mark.parametrize(("case", "step"), split(_CASES, 1 + len(_INVALID)))
def test_invalid_tokens_are_refused(snapshot: FleetSnapshot, case: str, step: int) -> None:
    """An invalid token gets 401 with a WWW-Authenticate header, and nothing changes."""
    header = _invalid_headers()[case]
    headers = {"authorization": header} if header else {}
    with snapshot.restore() as arm:
        before = state(arm)
        for request in arm.requests()[::step]:
            body = json.dumps(request.body).encode() if request.body else b""
            query = f"api-version={VERSION}"
            response = arm.send(request.route.method, request.path, query, body, headers)
            assert response.status == 401, request.label
            assert response.headers["www-authenticate"].startswith("Bearer"), request.label
            assert response.error_code in _ERROR_CODES, request.label
            assert_error(response, request.label)
        assert state(arm) == before


_ERROR_CODES = {"AuthenticationFailed", "InvalidAuthenticationToken", "ExpiredAuthenticationToken"}


def test_a_token_that_is_revoked_while_the_body_is_sent() -> None:
    """A client may send slowly; what it then asks for is refused."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    with ArmHarness() as arm:
        tokens = arm.app.context.tokens
        token = arm.run(tokens.issue(TokenUse.API, OPERATOR))

        async def revoke_and_receive() -> Message:
            await tokens.revoke(token.claims, actor="operator")
            return {"type": "http.request", "body": b'{"location": "local"}'}

        path = f"{SUBSCRIPTION}/resourceGroups/rg"
        headers = {"host": HOST, "authorization": f"Bearer {token.text}"}
        scope = asgi_scope("PUT", f"{path}?api-version={VERSION}", headers.items())
        arm.run(arm.app(scope, revoke_and_receive, send))
        assert sent[0]["status"] == 401
        assert arm.get("/resourceGroups/rg").status == 404


@pytest.mark.parametrize("query", ["access_token", "authorization", "token"])
def test_a_token_in_the_query_is_ignored(snapshot: FleetSnapshot, query: str) -> None:
    """URLs are logged, so a token in one does not count."""
    with snapshot.restore() as arm:
        query_string = f"api-version={VERSION}&{query}={sign_token(arm.tokens, OPERATOR)}"
        path = arm.requests()[0].path
        assert arm.send("GET", path, query_string, b"", {}).status == 401


def test_unauthenticated_requests_do_not_reveal_paths(snapshot: FleetSnapshot) -> None:
    """Without a token, existing and unknown paths get the same response."""
    with snapshot.restore() as arm:
        for path in ("/subscriptions/x/nothing", "/nothing", "/", "//", "/a/b/c/d/e/f/g"):
            response = arm.send("GET", path, "", b"", {})
            assert (response.status, response.error_code) == (401, "AuthenticationFailed"), path


def test_public_routes_change_nothing(snapshot: FleetSnapshot) -> None:
    """Requests to public routes change no state, whatever their headers."""
    with snapshot.restore() as arm:
        before = state(arm)
        for route in arm.app.table.routes:
            if route.public:
                request = arm.request_for(route)
                for headers in ({}, {"authorization": "Bearer x"}, {"content-type": "text/x"}):
                    response = arm.send(route.method, request.path, "", b"", headers)
                    assert response.status in {200, 400, 401}, request.label
                    assert_no_secrets(response, request.label)
        assert state(arm) == before


# --- Tenants of another group ---------------------------------------------------------------------


OTHER_GROUPS = ("theirs", "Our", "Ours2", "Ours:", "Our*", "%", ".", "ours:one", "our\u017f")


@each_step
@pytest.mark.parametrize("group", OTHER_GROUPS)
def test_a_tenant_of_another_group(snapshot: FleetSnapshot, group: str, step: int) -> None:
    """A tenant of another group, whatever its name, can neither read nor change what is ours."""
    principal = Principal(name="bob", role=Role.TENANT, group=group)
    with snapshot.restore() as arm:
        before = state(arm)
        for request in arm.requests()[:: step if group != "theirs" else 1]:
            response = arm.call(request, principal=principal)
            if "group" in request.params or request.route.subscription_wide:
                assert (response.status, response.error_code) == (403, "AuthorizationFailed"), (
                    request.label
                )
                assert_error(response, request.label)
            elif "/operations/" in request.route.path:
                assert (response.status, response.error_code) == (404, "NotFound"), request.label
            else:
                assert response.status == 200, request.label
                assert OURS.lower() not in response.body.decode().lower(), request.label
        assert state(arm) == before


def test_refusals_do_not_reveal_groups(snapshot: FleetSnapshot) -> None:
    """A tenant gets the same refusal for an existing and an unknown group."""
    with snapshot.restore() as arm:
        for request in arm.requests():
            if "group" not in request.params:
                continue
            ours, none = (arm.call(request.at(group=g), principal=BOB) for g in (OURS, "None"))
            assert ours.status == none.status, request.label
            assert ours.body.replace(OURS.encode(), b"None") == none.body, request.label


@each_step
@pytest.mark.parametrize("principal", [OPERATOR, BOB, READER], ids=lambda principal: principal.name)
def test_errors_are_short(snapshot: FleetSnapshot, principal: Principal, step: int) -> None:
    """An error quotes only a limited part of a long parameter."""
    long = "x" * 20_000
    with snapshot.restore() as arm:
        before = state(arm)
        for request in arm.requests()[::step]:
            for name in request.params:
                response = arm.call(request.at(**{name: long}), principal=principal)
                if response.status >= 400:
                    assert_error(response, f"{request.label} {name}")
                    assert response.status in {400, 403, 404}, request.label
        assert state(arm) == before


LISTS = (
    "/resources",
    "/resourceGroups",
    "/providers/Microsoft.Compute/virtualMachines",
    "/providers/Microsoft.Compute/disks",
)


@pytest.mark.parametrize("path", LISTS)
def test_queries_do_not_reveal_other_groups(snapshot: FleetSnapshot, path: str) -> None:
    """Neither a filter nor a skip token returns resources of other groups."""
    places = [
        "microsoft.compute/availabilitysets:ours:",
        "microsoft.compute/virtualmachines:ours:inside",
        "microsoft.compute/disks:ours",
        "microsoft.resources/resourcegroups::",
        "",
        "zzz",
    ]
    tokens = [base64.urlsafe_b64encode(place.encode()).decode() for place in places]
    queries = [
        *({"$skiptoken": token} for token in tokens),
        *({"$filter": f} for f in ("resourceGroup eq 'Ours'", "name eq 'one'")),
        {"$filter": "resourceGroup eq 'Theirs' or resourceGroup eq 'Ours'"},
        {"$expand": "instanceView", "statusOnly": "true"},
        {"$top": "1000"},
    ]
    with snapshot.restore() as arm:
        for query in queries:
            response = arm.get(path, principal=BOB, **query)
            assert response.status in {200, 400}, query
            assert OURS.lower() not in response.body.decode().lower(), query


# --- Readers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["", "ours"], ids=["everywhere", "bound"])
def test_a_reader(snapshot: FleetSnapshot, group: str) -> None:
    """A reader can read everything (of its group) and write nothing."""
    principal = Principal(name="eve", role=Role.READER, group=group)
    with snapshot.restore() as arm:
        before = state(arm)
        for request in arm.requests():
            response = arm.call(request, principal=principal)
            if request.route.writes or (group and request.route.subscription_wide):
                assert (response.status, response.error_code) == (403, "AuthorizationFailed"), (
                    request.label
                )
                assert_error(response, request.label)
            elif request.names_nothing:
                assert response.status == 404, request.label
            else:
                assert response.status in {200, 204}, (request.label, response.body)
                assert group != "ours" or THEIRS not in response.body.decode(), request.label
        assert state(arm) == before


# --- Tenants in their own group -------------------------------------------------------------------


@each_step
def test_a_tenant_in_its_group(snapshot: FleetSnapshot, step: int) -> None:
    """A tenant can do all that the operator can in its group, and sees nothing outside."""
    with snapshot.restore() as first:
        requests = [
            request
            for request in first.requests()
            if not request.route.subscription_wide and not request.names_nothing
        ]
    for request in requests[::step]:
        with snapshot.restore() as arm:
            others = _names_of_group(arm, THEIRS)
            response = arm.call(request, principal=ANN)
            assert 200 <= response.status < 300, (request.label, response.body)
            assert THEIRS.lower() not in response.body.decode().lower(), request.label
            arm.advance(3_600)
            assert _names_of_group(arm, THEIRS) == others, request.label


def _names_of_group(arm: Everything, group: str) -> list[object]:
    """Return the names of a group's entities; their other state changes with time."""
    result, *_ = state(arm)
    assert isinstance(result, dict)
    names = sorted(str(name) for _, name in result if ":upgrade:" not in str(name))
    return [name for name in names if f":{group}:".lower() in f":{name}:".lower()]


# --- Paths, versions and methods ------------------------------------------------------------------


def test_another_subscription(snapshot: FleetSnapshot) -> None:
    """Every route returns 404 for an unknown subscription."""
    with snapshot.restore() as arm:
        before = state(arm)
        for request in arm.requests():
            if "subscription" in request.params:
                other = request.at(subscription="00000000-0000-0000-0000-000000000002")
                response = arm.call(other)
                assert (response.status, response.error_code) == (404, "SubscriptionNotFound"), (
                    request.label
                )
                assert_error(response, request.label)
        assert state(arm) == before


VERSIONS = {
    "": "MissingApiVersionParameter",
    "latest": "InvalidApiVersionParameter",
    "2024-13-01": "InvalidApiVersionParameter",
    "2024-11-01 ": "InvalidApiVersionParameter",
    "2024-11-01-preview-2": "InvalidApiVersionParameter",
    "٢٠٢٤-11-01": "InvalidApiVersionParameter",
    "x" * 5_000: "InvalidApiVersionParameter",
}


@each_step
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: str(version)[:20] or "none")
def test_a_version_is_required(snapshot: FleetSnapshot, version: str, step: int) -> None:
    """A missing or invalid api-version gets 400, and nothing changes."""
    with snapshot.restore() as arm:
        before = state(arm)
        for request in arm.requests()[::step]:
            response = arm.call(request, version=version)
            assert (response.status, response.error_code) == (400, VERSIONS[version]), request.label
            assert_error(response, request.label)
        assert state(arm) == before


def _spellings(request: RouteRequest) -> Iterator[str]:
    """Yield a path in other cases, except for case-sensitive ids."""
    case_sensitive = {value for name, value in request.params.items() if name in OPAQUE}
    if "/operations/" in request.route.path:
        case_sensitive.add(request.params["name"])
    for spell in (str.upper, str.lower, str.swapcase, str.title):
        yield "/".join(
            part if part in case_sensitive else spell(part) for part in request.path.split("/")
        )


def test_paths_are_case_insensitive(snapshot: FleetSnapshot) -> None:
    """A GET returns the same document for a path in any case."""
    with snapshot.restore() as arm:
        for request in arm.requests():
            if request.route.method != "GET":
                continue
            expected = arm.call(request)
            for path in _spellings(request):
                response = arm.request(request.route.method, f"/{path}")
                assert response.status == expected.status, (path, response.body)
                assert response.body.lower() == expected.body.lower(), path


@each_step
def test_paths_of_writes_are_case_insensitive(snapshot: FleetSnapshot, step: int) -> None:
    """A write to a path in another case has the same result."""
    with snapshot.restore() as first:
        requests = [request for request in first.requests() if request.route.writes]
    for request in requests[::step]:
        with snapshot.restore() as arm:
            expected = arm.call(request)
            names = _names(arm)
        with snapshot.restore() as arm:
            response = arm.request(
                request.route.method, f"/{next(_spellings(request))}", request.body
            )
            assert response.status == expected.status, (request.label, response.body)
            assert _names(arm) == names, request.label


def _names(arm: Everything) -> set[str]:
    result, *_ = state(arm)
    assert isinstance(result, dict)
    chosen_by_chance = {"Operation", "Rollout", "Lane"}
    return {name for kind, name in result if kind.__name__ not in chosen_by_chance}


@each_step
def test_other_methods(snapshot: FleetSnapshot, step: int) -> None:
    """An unsupported method gets 405, or 404 if it were an action; nothing changes."""
    with snapshot.restore() as arm:
        before = state(arm)
        for request in arm.requests()[::step]:
            for method in _unsupported_methods(arm, request):
                response = arm.request(method, f"/{request.path}")
                expected = {404, 405} if method == "POST" else {405}
                assert response.status in expected, (method, request.label)
                assert_error(response, request.label)
        assert state(arm) == before


def _unsupported_methods(arm: Everything, request: RouteRequest) -> list[str]:
    """Return the methods that this path does not support."""
    supported = {route.method for route in arm.routes() if route.path == request.route.path}
    supported |= {"HEAD"} if "GET" in supported else set()
    return [method for method in METHODS if method not in supported]


@pytest.mark.parametrize(
    "path",
    [
        "//nothing",
        "//",
        "///",
        "//subscriptions/x/y",
        "/resourceGroups/Ours/nothing",
        "/resourceGroups/Ours/providers",
        "/resourceGroups/Ours/providers/nothing/a/b",
        "/resourceGroups/Ours/../Theirs",
        "//" + "a/" * 3_000,
        "//" + "a" * 60_000,
    ],
    ids=lambda path: str(path)[:60],
)
def test_unknown_paths(snapshot: FleetSnapshot, path: str) -> None:
    """An unknown path gets 404, and nothing changes."""
    with snapshot.restore() as arm:
        before = state(arm)
        for method in ("GET", "PUT", "POST", "DELETE"):
            response = arm.request(method, path)
            assert response.status == 404, path
            assert response.error_code in {"InvalidResourceType", "SubscriptionNotFound"}, path
            assert_error(response, path)
        assert state(arm) == before
