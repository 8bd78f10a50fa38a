"""What one request may cost: long lists and names are refused, or read in steps (IB4)."""

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from fairwarning.arm.compute import instances, targets
from fairwarning.arm.http.azure_id import AzureId, parse_id
from fairwarning.arm.http.request import BODY_BYTES, decode_body
from fairwarning.arm.types import context, references, stored, users, writing
from fairwarning.arm.types.references import REFERENCES_MAX
from fairwarning.arm.types.registered import PARTS_MAX
from fairwarning.arm.types.resource_type import DesiredResource
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core import limits
from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Resource
from fairwarning.service.reader import FleetReader
from tests.arm.bodies import (
    COMPUTE,
    LB,
    NETWORK,
    NIC,
    VM,
    VNET,
    WEB,
    Json,
    link,
    machine,
    names,
    network,
    nic,
    put,
    refused,
    scale_set,
)
from tests.arm.everything import state
from tests.arm.templates import deployment
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("X7")

GROUP = "/resourceGroups/rg"
ACCOUNTS = f"{GROUP}/providers/Microsoft.Storage/storageAccounts"


def named(count: int, **properties: object) -> list[Json]:
    """Return parts of a resource."""
    return [{"name": f"n{number}", "properties": properties} for number in range(count)]


def model(configurations: int) -> Json:
    """Return the model of a set whose instances have this many IP configurations."""
    interface = {"name": "nic", "properties": {"ipConfigurations": named(configurations)}}
    return {"networkProfile": {"networkInterfaceConfigurations": [interface]}}


RULE = {"backendAddressPool": link(f"{LB}/backendAddressPools/p"), "frontendPortRangeStart": 1}
IDS = [f"{SUBSCRIPTION}{NETWORK}/virtualNetworks/n{n}" for n in range(REFERENCES_MAX + 1)]


@pytest.mark.parametrize(
    ("path", "properties", "text"),
    [
        (VNET, {"subnets": named(PARTS_MAX + 1)}, "at most 1500 entries"),
        (NIC, {"ipConfigurations": named(257)}, "at most 256 IP configurations"),
        (WEB, {"virtualMachineProfile": model(32)}, "interfaces and IP configurations together"),
        (f"{ACCOUNTS}/a", {"ids": IDS}, "at most 1000 others"),
        (LB, {"inboundNatRules": named(11, **RULE)}, "at most 10 for each pool"),
    ],
    ids=lambda value: value.rpartition("/")[2] if isinstance(value, str) else "",
)
def test_lists_that_are_too_long(arm: ArmHarness, path: str, properties: Json, text: str) -> None:
    """They are refused, with the limit, and nothing is created."""
    put(arm, LB, backendAddressPools=[{"name": "p"}])
    before = state(arm)
    response = arm.put(path, {"location": "local", "properties": properties})
    assert response.status == 400
    assert text in response.error_message
    assert state(arm) == before


def body_of(characters: int) -> Json:
    """Return the body of a stored resource that has about as many characters."""
    return {"properties": {"text": "x" * characters}}


@pytest.mark.parametrize("path", [f"{ACCOUNTS}/a", VM])
def test_a_body_that_is_too_long(
    arm: ArmHarness, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that no resource can need is refused before it is decoded."""
    decoded: list[int] = []

    def decode(raw: bytes) -> Json:
        decoded.append(len(raw))
        return decode_body(raw)

    monkeypatch.setattr(writing, "decode_body", decode)
    long = body_of(6 * limits.RESOURCE_CHARACTERS)
    assert refused(arm.put(path, long)) == (413, "RequestContentTooLarge")
    assert decoded == []
    assert arm.put(f"{ACCOUNTS}/a", body_of(1000)).status == 201
    assert len(decoded) == 1


def test_a_body_with_escapes(arm: ArmHarness) -> None:
    """What counts is the length of the document, not that of the text that the client sends."""
    text = "\u00e9" * (limits.RESOURCE_CHARACTERS - 2048)
    assert len(json.dumps(text)) > 5 * limits.RESOURCE_CHARACTERS
    assert arm.put(f"{ACCOUNTS}/a", {"properties": {"text": text}}).status == 201
    assert arm.get(f"{ACCOUNTS}/a").json["properties"]["text"] == text


def test_a_document_that_is_too_long(arm: ArmHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is twice as long as a stored one may be is refused before it is compared."""
    planned: list[str] = []

    async def plan(write: ResourceWrite, _body: Json) -> DesiredResource:
        planned.append(write.name)
        raise AssertionError

    monkeypatch.setattr(stored, "_plan", plan)
    long = body_of(2 * limits.RESOURCE_CHARACTERS)
    assert refused(arm.put(f"{ACCOUNTS}/a", long)) == (413, "RequestContentTooLarge")
    assert planned == []


@pytest.mark.parametrize("path", [f"{ACCOUNTS}/a", VM, GROUP])
def test_a_long_body_is_parsed_in_a_thread(
    arm: ArmHarness, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short one is parsed at once."""
    threads: list[int] = []

    def decode(raw: bytes) -> Json:
        threads.append(threading.get_ident())
        return decode_body(raw)

    monkeypatch.setattr(writing, "decode_body", decode)
    for count in (10, 10_000):
        body = {"location": "local", "tags": {}, "properties": {"list": ["x"] * count}}
        assert arm.put(path, body).status in {200, 201}
    first, second = threads
    assert first == threading.get_ident() != second


def test_only_ids_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other strings of a document are passed over, however long or many they are."""
    read: list[int] = []
    string = references._STRING

    class Counted:
        def match(self, text: bytes, start: int) -> re.Match[bytes] | None:
            read.append(start)
            return string.match(text, start)

    monkeypatch.setattr(references, "_STRING", Counted())
    texts = ["x" * 100_000, *map(str, range(1000)), '"/subscriptions/a', "\\/subscriptions/a"]
    assert [*references._ids({"a": texts})] == []
    assert read == []
    id_ = '/SubScriptions/a"b\\'
    assert [*references._ids({"a": [*texts, id_, *texts], id_: "b"})] == [id_, id_]
    assert len(read) == 2


def test_too_many_ids(arm: ArmHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there are too many, no more are read."""
    parsed = 0

    def parse(text: object) -> AzureId | None:
        nonlocal parsed
        parsed += 1
        return parse_id(text)

    monkeypatch.setattr(references, "parse_id", parse)
    many = [f"{IDS[0]}{number}" for number in range(2 * REFERENCES_MAX)]
    assert arm.put(f"{ACCOUNTS}/a", {"properties": {"ids": many}}).status == 400
    assert parsed == REFERENCES_MAX + 1


def test_others_go_on_while_ids_are_read(arm: ArmHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the same id is read again and again."""
    turn, turns = 0, Counter[int]()
    ids = references._ids

    def count(body: Json) -> Iterator[str]:
        for text in ids(body):
            turns[turn] += 1
            yield text

    monkeypatch.setattr(references, "_ids", count)
    body = {"properties": {"ids": [f"{SUBSCRIPTION}{GROUP}"] * 1000}}

    async def write() -> None:
        nonlocal turn
        task = asyncio.create_task(arm.send_async("PUT", f"{ACCOUNTS}/a", body))
        while not task.done():
            await asyncio.sleep(0)
            turn += 1
        assert (await task).status == 201

    arm.run(write())
    assert turns.total() == 1000
    assert max(turns.values()) <= references._AT_ONCE


def test_too_many_instance_ids(arm: ArmHarness) -> None:
    """A list has as many ids as a set has instances, at most; names are looked up once."""
    scale_set(arm)
    ids = [f"web_{number % 3}" for number in range(limits.SET_INSTANCES)]
    response = arm.post(f"{WEB}/restart", {"instanceIds": [*ids, "0"]})
    assert refused(response) == (400, "InvalidParameter")
    assert arm.post(f"{WEB}/restart", {"instanceIds": ids}).status == 202


@pytest.mark.parametrize("name", ["-" * 7000, "web_1-" * 1000])
def test_a_long_name(arm: ArmHarness, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The instances that may have an interface of this name are few."""
    reads = 0
    read = FleetReader.read

    async def count(self: FleetReader, *arguments: Any) -> Any:  # noqa: ANN401  (as the method)
        nonlocal reads
        reads += 1
        return await read(self, *arguments)

    monkeypatch.setattr(FleetReader, "read", count)
    assert arm.get(f"{NETWORK}/networkInterfaces/{name}").status == 404
    assert reads < 100


def test_others_go_on_while_a_document_is_checked(arm: ArmHarness) -> None:
    """A write with many references, and one that looks for addresses, let other requests work."""
    network(arm)
    nic(arm)
    configurations = {"ipConfigurations": named(200)}
    slow = {"location": "local", "properties": configurations}
    order: list[str] = []

    async def send(path: str, body: Json) -> None:
        assert (await arm.send_async("PUT", path, body)).status == 201
        order.append(path)

    async def both() -> None:
        task = asyncio.create_task(send(f"{NIC}2", slow))
        await asyncio.sleep(0)
        await send(f"{ACCOUNTS}/quick", {})
        await task

    arm.run(both())
    assert order == [f"{ACCOUNTS}/quick", f"{NIC}2"]


def test_others_go_on_while_instances_are_listed(
    arm: ArmHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The documents of a page are built in steps."""
    turn, turns = 0, Counter[int]()
    document = instances.document

    def count(*arguments: Any, **options: Any) -> Json:  # noqa: ANN401  (as the function)
        turns[turn] += 1
        return document(*arguments, **options)

    monkeypatch.setattr(instances, "document", count)
    scale_set(arm, capacity=60)

    async def read() -> None:
        nonlocal turn
        reading = asyncio.create_task(arm.send_async("GET", f"{WEB}/virtualMachines", None))
        while not reading.done():
            await asyncio.sleep(0)
            turn += 1
        assert (await reading).status == 200

    arm.run(read())
    assert turns.total() == 60
    assert max(turns.values()) <= targets.AT_ONCE


def test_pages_of_long_documents(arm: ArmHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page ends when its documents are long; all pages together have everything once."""
    monkeypatch.setattr(context, "PAGE_CHARACTERS", 3000)
    monkeypatch.setattr("fairwarning.arm.compute.targets.PAGE_CHARACTERS", 3000)
    monkeypatch.setattr("fairwarning.arm.compute.instances.PAGE_CHARACTERS", 3000)
    machine(arm)
    scale_set(arm, orchestrationMode="Flexible", note="x" * 800)
    for number in range(5):
        assert arm.put(f"{ACCOUNTS}/a{number}", {"properties": {"x": "y" * 1000}}).status == 201
    for number in range(3):
        long = {"location": "local", "properties": {"note": "y" * 2000}}
        assert arm.put(f"{COMPUTE}/virtualMachines/web_{number}", long).status == 200
    for path, expected in (
        (ACCOUNTS, [f"a{number}" for number in range(5)]),
        ("/resources", ["vm", "web", *(f"a{number}" for number in range(5))]),
        (f"{COMPUTE}/virtualMachines", ["vm", "web_0", "web_1", "web_2"]),
        (f"{WEB}/virtualMachines", ["web_0", "web_1", "web_2"]),
    ):
        page = arm.get(path).json
        pages = [page["value"]]
        while "nextLink" in page:
            page = arm.follow(page["nextLink"]).json
            pages.append(page["value"])
        assert sorted(entry["name"] for each in pages for entry in each) == sorted(expected)
        assert len(pages) > 1


def test_a_batch_of_long_responses(arm: ArmHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its responses are as long as a request may be, the rest of a batch is not done."""
    monkeypatch.setattr("fairwarning.arm.http.internal.BODY_BYTES", 2000)
    assert BODY_BYTES > 2000
    machine(arm)
    url = f"{SUBSCRIPTION}{VM}?api-version=2024-11-01"
    entries = [{"httpMethod": "GET", "url": url}] * 4 + [{"httpMethod": "DELETE", "url": url}]
    responses = arm.post("//batch", {"requests": entries}).json["responses"]
    statuses = [response["httpStatusCode"] for response in responses]
    assert statuses == [*[200] * statuses.count(200), *[413] * statuses.count(413)]
    assert responses[-1]["content"]["error"]["code"] == "ResponseContentTooLarge"
    assert arm.get(VM).json["properties"]["provisioningState"] == "Succeeded"


def test_the_users_of_a_network(arm: ArmHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document names a bounded number of users; the network is in use all the same."""
    monkeypatch.setattr(users, "SHOWN_MAX", 2)
    network(arm)
    for number in range(4):
        nic(arm, f"{NIC}{number}")
    (subnet,) = arm.get(VNET).json["properties"]["subnets"]
    assert len(subnet["properties"]["ipConfigurations"]) == 2
    assert refused(arm.delete(VNET)) == (400, "InUseSubnetCannotBeDeleted")
    network(arm, path=f"{VNET}2")
    nic(arm, f"{NIC}9", subnet=link(f"{VNET}2/subnets/front"))
    assert refused(arm.delete(f"{VNET}2")) == (400, "InUseSubnetCannotBeDeleted")


def test_the_oldest_deployments_are_removed(
    arm: ArmHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Azure, a group keeps a number of them."""
    monkeypatch.setattr("fairwarning.arm.resources.deployment_documents.DEPLOYMENTS_MAX", 10)
    deployments = f"{GROUP}/providers/Microsoft.Resources/deployments"
    for number in (3, 1, *range(10, 22)):
        arm.advance(1)
        assert arm.put(f"{deployments}/d{number}", deployment()).status == 201
    assert names(arm, deployments) == [f"d{number}" for number in range(12, 22)]
    assert len(arm.run(arm.fleet.reader.list_ids(Resource, "", 100))) == 11

    async def fail(*_: object) -> list[str]:
        raise Unavailable("StoreUnavailable", "the disk is full")

    monkeypatch.setattr(FleetReader, "list_ids", fail)
    assert arm.put(f"{deployments}/last", deployment()).status == 201
    assert arm.get(f"{deployments}/last").status == 200
