"""Any request to the control plane succeeds, or is refused with a reason and changes nothing.

Every route gets valid requests with a few mutations in path, query, headers and body. The same is
done for logins and templates.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fairwarning.arm import app
from fairwarning.arm.compute import targets
from fairwarning.arm.http.routes import Route
from fairwarning.arm.login import FORM_BYTES
from fairwarning.arm.resources import subscriptions
from fairwarning.arm.types import context
from fairwarning.core.limits import RESOURCE_CHARACTERS
from fairwarning.service.tokens import TokenUse
from tests.arm.everything import OPERATOR, OURS, Everything, FleetSnapshot, resource_routes, state
from tests.campaigns import split
from tests.fixtures.arm import default_version
from tests.fixtures.http import Response
from tests.fixtures.tokens import sign_token
from tests.hostile.arm_requests import LIMIT, MUTATIONS, MutatedRequest, Mutation, mutated
from tests.hostile.arm_templates import EXPRESSIONS, TEMPLATES

pytestmark = pytest.mark.spec("C1", "C3")

REFUSALS = {400, 404, 405, 409, 412, 413}
DOCUMENTED = {
    "GET": {200, 202, 400, 404, 405, 409},
    "HEAD": {204, 400, 404, 405},
    "PUT": {200, 201, *REFUSALS},
    "PATCH": {200, *REFUSALS},
    "POST": {200, 202, 204, 429, *REFUSALS},
    "DELETE": {200, 202, 204, *REFUSALS},
}
"""The statuses that Azure documents per method. 202 for a GET: an operation is in progress."""

MESSAGE_CHARACTERS = 1_000
EXAMPLES = settings().max_examples // 5  # 20 per route, and many more with the profile `explore`
ROUTES = [*(route for module in app.MODULES for route in module.ROUTES), *resource_routes()]
ODD = ("path", "self", "call", "query", "host", "a b", "&", "top", "api_version", "é", "monitor")
PAGES = 100
FORM = "application/x-www-form-urlencoded"

limited = settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))


class SharedFleet:
    """A fleet with one of everything, recreated once it has been changed."""

    def __init__(self) -> None:
        self._snapshot = FleetSnapshot()
        self._open: Any = None
        self._arm: Everything | None = None
        self._before: object = None

    def arm(self) -> Everything:
        """Return the fleet in its initial state."""
        if self._arm is None:
            self._open = self._snapshot.restore()
            self._arm = self._open.__enter__()
            self._before = state(self._arm)
        return self._arm

    def unchanged(self) -> bool:
        return self._arm is not None and state(self._arm) == self._before

    @contextmanager
    def initial(self) -> Iterator[Everything]:
        """Yield the fleet in its initial state, for one request."""
        try:
            yield self.arm()
        finally:
            if not self.unchanged():
                self.drop()

    def drop(self) -> None:
        """Discard the fleet; the next test gets a new one."""
        if self._arm is not None:
            self._arm = None
            self._open.__exit__(None, None, None)


@pytest.fixture(scope="module")
def shared_fleet() -> Iterator[SharedFleet]:
    """One fleet for all tests of this file."""
    fleet = SharedFleet()
    yield fleet
    fleet.drop()


def send(arm: Everything, sent: MutatedRequest) -> Response:
    """Send a request as the operator, who may do everything."""
    headers = {"authorization": f"Bearer {sign_token(arm.tokens, OPERATOR)}", **sent.headers}
    return arm.send(sent.method, sent.path, sent.query, sent.body, headers)


def check(
    shared_fleet: SharedFleet, arm: Everything, sent: MutatedRequest, response: Response
) -> None:
    """Check what holds for every request."""
    assert response.status in DOCUMENTED[sent.method], (sent, response)
    assert arm.fleet.broken is None, sent
    if response.status >= 400:
        assert_error(sent, response)
        assert shared_fleet.unchanged(), (sent, response)
    elif sent.method == "PUT":
        assert_stored(arm, response)


def assert_error(sent: MutatedRequest, response: Response) -> None:
    """Check for a code that can be compared, and a readable message."""
    if sent.method == "HEAD" and not response.body:
        return
    if response.status == 409 and "monitor" in sent.query:
        return  # the result of an operation has the same format, and is not a refusal
    assert set(response.json) == {"error"}, sent
    assert set(response.json["error"]) == {"code", "message"}, sent
    assert response.error_code.isalpha(), sent
    assert response.error_code.isascii(), sent
    assert 0 < len(response.error_message) <= MESSAGE_CHARACTERS, (
        sent,
        len(response.error_message),
    )


def assert_stored(arm: Everything, response: Response) -> None:
    """Check that a written resource can be read by its id, unchanged."""
    put = response.json
    got = arm.get(f"/{put['id']}")
    assert got.status == 200, (put, got.body)
    read = got.json
    for document in (put, read):
        document.get("properties", {}).pop("provisioningState", None)
    assert read == put


def _label(route: Route) -> str:
    path = route.path.rpartition("providers/")[2].replace("Microsoft.", "")
    return f"{route.method} {path}"


@pytest.mark.parametrize("route", ROUTES, ids=_label)
@limited
@given(mutation=MUTATIONS)
def test_mutated_requests(shared_fleet: SharedFleet, route: Route, mutation: Mutation) -> None:
    """Each is carried out consistently, or refused with a code and a reason and no change."""
    with shared_fleet.initial() as arm:
        sent = mutated(arm.request_for(route), mutation)
        response = send(arm, sent)
        if route.public:
            assert response.status in {200, 400, 401, 404, 405}, (sent, response)
            assert shared_fleet.unchanged()
        else:
            check(shared_fleet, arm, sent, response)


@pytest.mark.parametrize("over", [False, True], ids=["at", "over"])
def test_the_largest_body(shared_fleet: SharedFleet, over: bool) -> None:
    """4 MiB are read; one more byte is refused wherever a body is read, without a change."""
    for route in ROUTES:
        if not route.writes or route.public:
            continue
        with shared_fleet.initial() as arm:
            request = arm.request_for(route)
            version = default_version(request.path)
            sent = MutatedRequest(
                route.method, request.path, f"api-version={version}", LIMIT[over], {}
            )
            response = send(arm, sent)
            reads = route.method in {"PUT", "PATCH"} or response.status == 413
            assert not over or not reads or response.status == 413, (sent.path, response)
            check(shared_fleet, arm, sent, response)


@pytest.mark.parametrize("query", split([{}, *({name: "x"} for name in ODD)], 2), ids=str)
def test_paged_listings(
    shared_fleet: SharedFleet, monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    """With any other query parameters, pages link to each other and list everything once."""
    everywhere = [route for route in ROUTES if not route.public and not route.writes]
    with shared_fleet.initial() as arm:
        whole = {route.path: arm.call(arm.request_for(route)).body for route in everywhere}
        for module in (context, subscriptions, targets):
            monkeypatch.setattr(module, "PAGE", 1)
        for route in everywhere:
            if b'"value":[' in whole[route.path]:
                expected = json.loads(whole[route.path])["value"]
                first = arm.request("GET", f"/{arm.request_for(route).path}?{urlencode(query)}")
                assert list(pages(arm, first)) == expected, route


def pages(arm: Everything, response: Response) -> Iterator[object]:
    """Return the items of a page and of all that follow."""
    for _ in range(PAGES):
        assert response.status == 200, response
        yield from response.json["value"]
        if "nextLink" not in response.json:
            return
        response = arm.follow(response.json["nextLink"])
    raise AssertionError("the pages do not end")


# --- Logins ---------------------------------------------------------------------------------------

_FORM = {
    "grant_type": ("client_credentials", "password", "", "\0", "x" * 9_000),
    "client_id": ("operator", "nobody", "", "é", "x" * 9_000),
    "client_secret": ("{secret}", "{access}", "x", "", "a.b.c", "é", "\0", "x" * 9_000),
    "scope": ("x",),
    "resource": ("x", ""),
    "client_assertion": ("x",),
    "": ("", "x"),
}
_FIELDS = st.sampled_from([(name, value) for name, values in _FORM.items() for value in values])
_BODIES = st.sampled_from(
    (
        b"", b"&", b"=", b"%", b"%ff", b"\xff", b"a" * FORM_BYTES, b"a" * (FORM_BYTES + 1),
        b"a=b&" * 40, b"a=1&a=2", b"{}", b"client_id=%00&client_secret=%00", b";" * 100,
        LIMIT[1],
    )
)  # fmt: skip
_TYPES = st.sampled_from((FORM, FORM, FORM, f"{FORM}; charset=utf-16", "application/json", "", "é"))
_BASIC = st.sampled_from(("", "", "Basic", "Basic !", "Basic eA==", "Basic eDp5", "Bearer x", "é"))
_TENANTS = st.sampled_from(("adfs", "common", "nowhere", "..", "%", "x" * 5_000))


@dataclass(frozen=True)
class Login:
    """A form or another body, with headers."""

    fields: list[tuple[str, str]]
    raw: bytes | None = None  # replaces the fields
    kind: str = FORM
    basic: str = ""
    tenant: str = "adfs"


_GOOD = Login([(name, values[0]) for name, values in list(_FORM.items())[:3]])
_LOGINS = st.builds(
    Login,
    fields=st.lists(_FIELDS, max_size=5),
    raw=st.none() | st.none() | _BODIES,
    kind=_TYPES,
    basic=_BASIC,
    tenant=_TENANTS,
)


@settings(max_examples=EXAMPLES * 8, suppress_health_check=list(HealthCheck))
@given(login=_LOGINS)
@example(login=_GOOD)
def test_mutated_logins(shared_fleet: SharedFleet, login: Login) -> None:
    """A valid secret gets a token, all others one of two refusals; nothing changes."""
    arm = shared_fleet.arm()
    tokens = {
        "{secret}": sign_token(arm.tokens, OPERATOR, TokenUse.LOGIN),
        "{access}": sign_token(arm.tokens, OPERATOR),
    }
    form = urlencode([(name, tokens.get(value, value)) for name, value in login.fields])
    body = form.encode() if login.raw is None else login.raw
    headers = {"content-type": login.kind}
    if login.basic:
        headers["authorization"] = login.basic
    response = arm.send("POST", f"/{login.tenant}/oauth2/token", "", body, headers)
    assert response.status in {200, 400, 401}, response
    if response.status == 200:
        assert ("client_secret", "{secret}") in login.fields
        token = arm.tokens.read(response.json["access_token"], TokenUse.ARM)
        assert token.principal == OPERATOR
    else:
        assert set(response.json) == {"error", "error_description"}
        assert 0 < len(response.json["error_description"]) <= MESSAGE_CHARACTERS
        assert not any(token in response.body.decode() for token in tokens.values())
    assert shared_fleet.unchanged()


# --- Templates ------------------------------------------------------------------------------------

_DEPLOYMENT = f"/resourceGroups/{OURS}/providers/Microsoft.Resources/deployments/new"


def deploy(shared_fleet: SharedFleet, body: object) -> tuple[Response, Response]:
    """Validate and deploy a template; return both results."""
    with shared_fleet.initial() as arm:
        return _deployed(shared_fleet, arm, body)


def _deployed(
    shared_fleet: SharedFleet, arm: Everything, body: object
) -> tuple[Response, Response]:
    valid = arm.post(f"{_DEPLOYMENT}/validate", body)
    assert valid.status in {200, 400, 404, 413}, (body, valid)
    assert shared_fleet.unchanged()
    done = arm.put(_DEPLOYMENT, body)
    sent = MutatedRequest("PUT", _DEPLOYMENT, "", repr(body).encode(), {})
    assert done.status in {201, 400, 413}, (body, done)
    if valid.status >= 400:
        assert_error(sent, valid)
    if done.status == 201:
        assert_deployment_result(arm, done)
    check(shared_fleet, arm, sent, done)
    return valid, done


def assert_deployment_result(arm: Everything, done: Response) -> None:
    """Check that the deployment reports its result."""
    status = arm.follow(done.headers["azure-asyncoperation"]).json
    assert status["status"] in {"Succeeded", "Failed"}
    assert ("error" in status) is (status["status"] == "Failed")
    if "error" in status:
        assert status["error"]["code"].isalpha()
        assert 0 < len(status["error"]["message"]) <= 2 * MESSAGE_CHARACTERS


@settings(max_examples=EXAMPLES * 5, suppress_health_check=list(HealthCheck))
@given(template=TEMPLATES)
def test_mutated_templates(shared_fleet: SharedFleet, template: object) -> None:
    """A template is deployed, or the deployment reports the error; either can be read."""
    deploy(shared_fleet, {"properties": {"mode": "Incremental", "template": template}})


@settings(max_examples=EXAMPLES * 5, suppress_health_check=list(HealthCheck))
@given(text=EXPRESSIONS)
def test_mutated_expressions(shared_fleet: SharedFleet, text: str) -> None:
    """An expression has a value, or the deployment reports the error."""
    template = {
        "contentVersion": "1.0.0.0",
        "parameters": {"p": {"type": "string", "defaultValue": "v"}},
        "variables": {"v": {"a": [1, "b", None]}},
        "resources": [],
        "outputs": {"o": {"type": "string", "value": f"[string({text})]"}},
    }
    deploy(shared_fleet, {"properties": {"mode": "Incremental", "template": template}})


def test_a_deployment_too_large_to_store(shared_fleet: SharedFleet) -> None:
    """It fails with a reason, or was never started."""
    disk = {
        "type": "Microsoft.Compute/disks",
        "name": "made",
        "apiVersion": "2024-03-02",
        "location": "local",
    }
    template = {
        "contentVersion": "1.0.0.0",
        "resources": [disk],
        "outputs": {"o": {"type": "string", "value": "x" * RESOURCE_CHARACTERS}},
    }
    deploy(shared_fleet, {"properties": {"mode": "Incremental", "template": template}})
