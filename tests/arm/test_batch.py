"""`POST /batch`: several requests in one (C2)."""

import asyncio
import json

import pytest
from starlette.types import Message

from fairwarning.service.tokens import Principal, Role
from tests.arm.bodies import VM, Json, machine, refused
from tests.arm.everything import state
from tests.arm.templates import deployment, hold_deployments
from tests.fixtures.arm import HOST, OPERATOR, SUBSCRIPTION, ArmHarness
from tests.fixtures.http import asgi_scope
from tests.fixtures.tokens import sign_token

pytestmark = pytest.mark.spec("C2")

VERSION = "api-version=2024-11-01"


def entry(path: str, method: str = "GET", **members: object) -> Json:
    """Return a request of a batch."""
    return {"httpMethod": method, "url": f"{SUBSCRIPTION}{path}?{VERSION}", **members}


def batch(arm: ArmHarness, *requests: Json, principal: Principal | None = None) -> list[Json]:
    """Send a batch, and return its responses."""
    response = arm.post("//batch", {"requests": requests}, principal=principal)
    assert response.status == 200, response.body
    result: list[Json] = response.json["responses"]
    return result


def test_reads_and_writes(arm: ArmHarness) -> None:
    """Each request has its own status, headers and content, in order."""
    machine(arm)
    full = entry(VM, name="c")
    full["url"] = f"https://{HOST}{full['url']}"
    responses = batch(
        arm,
        entry(VM, name="a"),
        entry(f"{VM}x", name="b"),
        full,
        entry(VM, "PATCH", content={"tags": {"a": "b"}}),
        entry(f"{VM}/restart", "POST"),
        entry(VM, "HEAD"),
    )
    assert [r["httpStatusCode"] for r in responses] == [200, 404, 200, 200, 202, 204]
    assert [r.get("name") for r in responses] == ["a", "b", "c", None, None, None]
    assert responses[0]["content"]["name"] == "vm"
    assert responses[1]["content"]["error"]["code"] == "ResourceNotFound"
    assert responses[3]["content"]["tags"] == {"a": "b"}
    assert responses[4]["headers"]["azure-asyncoperation"].startswith(f"https://{HOST}/")
    assert "content" not in responses[4]


def test_each_request_is_authorized(arm: ArmHarness) -> None:
    """A batch can do nothing that its requests could not do."""
    machine(arm)
    machine(arm, VM.replace("rg", "other"))
    before = state(arm)
    eve = Principal(name="eve", role=Role.READER, group="rg")
    other = VM.replace("rg", "other")
    no_version = {"httpMethod": "GET", "url": f"{SUBSCRIPTION}{VM}"}
    requests = entry(VM), entry(VM, "DELETE"), entry(other), no_version
    responses = batch(arm, *requests, principal=eve)
    assert [r["httpStatusCode"] for r in responses] == [200, 403, 403, 400]
    assert state(arm) == before
    body = b'{"requests": []}'
    assert arm.send("POST", "/batch", VERSION, body, {}).status == 401


def test_other_reads_go_on_beside_batches_that_write(
    arm: ArmHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch counts as a read only while one of its requests reads."""
    has_read = hold_deployments(monkeypatch)
    path = "/resourceGroups/rg/providers/Microsoft.Resources/deployments/d"
    batches = [{"requests": [entry(f"{path}{n}", "PUT", content=deployment())]} for n in range(5)]
    machine(arm)

    async def read() -> int:
        status = (await arm.send_async("GET", VM, None)).status
        has_read.set()
        return status

    async def send_all() -> list[int]:
        sent = [arm.send_async("POST", "//batch", body) for body in batches]
        responses, status = await asyncio.gather(asyncio.gather(*sent), read())
        return [*(r.json["responses"][0]["httpStatusCode"] for r in responses), status]

    assert arm.run(send_all()) == [*[201] * 5, 200]


def test_a_batch_without_a_client(arm: ArmHarness) -> None:
    """Once the client is gone, no request of its batch begins."""
    messages: list[Message] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": json.dumps({"requests": [entry(VM, "DELETE")]}).encode()},
    ]

    async def receive() -> Message:
        return messages.pop() if messages[1:] else messages[0]

    async def send(message: Message) -> None:
        pytest.fail(f"there is no client for {message}")

    machine(arm)
    headers = {"host": HOST, "authorization": f"Bearer {sign_token(arm.tokens, OPERATOR)}"}
    scope = asgi_scope("POST", f"/batch?{VERSION}", headers.items())
    arm.run(arm.app(scope, receive, send))
    assert arm.get(VM).json["properties"]["provisioningState"] == "Succeeded"


def test_a_long_batch(arm: ArmHarness) -> None:
    """Ansible's inventory sends a hundred requests; above twenty, each has a name."""
    responses = batch(arm, *(entry("", name=f"n{number}") for number in range(100)))
    assert {response["httpStatusCode"] for response in responses} == {200}
    assert [response["name"] for response in responses] == [f"n{n}" for n in range(100)]


def test_a_batch_in_a_batch(arm: ArmHarness) -> None:
    """A batch contains no other batch, however its path is spelled."""
    inner = {"requests": [entry("")]}
    for path in ("/batch", "/BATCH/", "//batch", "/%62atch"):
        request = {"httpMethod": "POST", "url": f"{path}?{VERSION}", "content": inner}
        (response,) = batch(arm, request)
        assert response["httpStatusCode"] == 400, path
        assert response["content"]["error"]["code"] == "InvalidBatchRequest"


def test_a_url_of_another_host(arm: ArmHarness) -> None:
    """A request goes to this service only."""
    for url in ("https://elsewhere.invalid/subscriptions", "subscriptions", f"https://{HOST}"):
        (response,) = batch(arm, {"httpMethod": "GET", "url": f"{url}?{VERSION}"})
        assert response["httpStatusCode"] == 400, url


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"requests": {}},
        {"requests": []},
        {"requests": [entry("")] * 21},
        {"requests": [entry("", name="a")] * 501},
        {"requests": ["x"]},
        {"requests": [entry("", "BREW")]},
        {"requests": [entry(VM, "DELETE"), {"httpMethod": "GET"}]},
        {"requests": [entry(VM, "DELETE"), {"url": "/", "httpMethod": 1}]},
    ],
    ids=str,
)
def test_a_bad_batch(arm: ArmHarness, body: Json) -> None:
    """None of the requests is sent if one is not well-formed."""
    machine(arm)
    before = state(arm)
    assert refused(arm.post("//batch", body)) == (400, "InvalidBatchRequest")
    assert state(arm) == before
