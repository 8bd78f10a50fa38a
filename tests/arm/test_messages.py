"""Messages of errors name resources as their users did, and never show ids of the store."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fairwarning.arm as arm_package
from fairwarning.arm import catalogue
from fairwarning.arm.http import errors
from fairwarning.arm.types import references, users
from fairwarning.core.errors import Conflict
from fairwarning.core.model import Scope
from tests.arm.everything import OURS, Everything, FleetSnapshot, RouteRequest
from tests.campaigns import each_step
from tests.fixtures.fleet import all_entities
from tests.fixtures.http import Response

pytestmark = pytest.mark.spec("C1")

COMPUTE = f"/resourceGroups/{OURS}/providers/Microsoft.Compute"
INTERNAL = re.compile(
    r"microsoft\.[a-z]+/[a-z/]+:|(?:\b(?:as|cs):)?\b(?:ours|theirs|rg):[\w/.-]+", re.IGNORECASE
)
"""Ids of the store, `microsoft.compute/disks:ours:d`, and of scopes and sets, `Ours:web/0`."""


PLACES = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")
"""The placeholders of an error's text."""
IN_USE = {reference.error for reference in references.TABLE if reference.error}


def assert_public(response: Response, label: str) -> None:
    """The message of an error shows no id of the store."""
    if response.status >= 400 and response.body:
        assert not INTERNAL.search(response.error_message), (label, response.error_message)


def poll_everything(arm: Everything) -> None:
    """Poll as every machine, so that deletions and restarts are announced and take time."""
    for entity in list(arm.run(all_entities(arm.store)).values()):
        if isinstance(entity, Scope):
            arm.poll(entity.id)


def restart_everything(arm: Everything) -> None:
    """Start an operation on every machine."""
    for path in (
        "virtualMachines/one/start",
        "virtualMachines/inside/start",
        "virtualMachines/spot/redeploy",
        "virtualMachineScaleSets/web/restart",
        "virtualMachineScaleSets/plans/restart",
    ):
        arm.post(f"{COMPUTE}/{path}")


def delete_resources(arm: Everything) -> None:
    """Delete every resource; machines are being deleted for the time of their notice."""
    for request in arm.requests():
        if request.route.method == "DELETE" and not request.path.endswith(OURS):
            arm.call(request)


def delete_group(arm: Everything) -> None:
    """Delete the group with everything in it."""
    arm.delete(f"/resourceGroups/{OURS}")


@pytest.fixture(scope="module")
def fleet() -> FleetSnapshot:
    """A fleet with a resource of every type."""
    return FleetSnapshot()


@pytest.fixture(scope="module")
def requests(fleet: FleetSnapshot) -> list[RouteRequest]:
    """A valid request for every route."""
    with fleet.restore() as arm:
        return arm.requests()


def renamed(request: RouteRequest) -> Iterator[RouteRequest]:
    """Return the request with each of its names replaced by an unknown one."""
    for name in request.params:
        if name != "subscription":
            yield request.at(**{name: "nothere"})


@each_step
def test_unknown_names(fleet: FleetSnapshot, requests: list[RouteRequest], step: int) -> None:
    """An unknown name is quoted as it was sent."""
    for request in requests[::step]:
        for other in renamed(request):
            with fleet.restore() as arm:
                assert_public(arm.call(other), other.label)


@each_step
@pytest.mark.parametrize("prepare", [delete_group, restart_everything, delete_resources])
def test_conflicts(
    fleet: FleetSnapshot,
    requests: list[RouteRequest],
    prepare: Callable[[Everything], None],
    step: int,
) -> None:
    """A request that conflicts with a running operation gets a message with names."""
    for request in requests[::step]:
        if request.route.writes:
            with fleet.restore() as arm:
                poll_everything(arm)
                prepare(arm)
                for _ in range(2):
                    assert_public(arm.call(request), request.label)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("there is no machine 'vm' in 'rg:web/0'", "there is no machine 'vm' in 'web'"),
        ("'as:rg:av' already has a machine 'a'", "'av' already has a machine 'a'"),
        ("a scope 'cs:rg:shop' exists", "a scope 'shop' exists"),
        ("'microsoft.compute/disks:rg:d' changed", "'d' changed"),
        ("'microsoft.network/loadbalancers:rg:lb/rule' changed", "'lb' changed"),
        ("no resource 'microsoft.resources/resourcegroups::rg'", "no resource 'rg'"),
        ("'x' is not a date: write '2016-09-19T18:29:47Z'", None),
        ("event ABC of 'web_0' has started", None),
    ],
)
def test_ids_of_the_core(text: str, expected: str | None) -> None:
    """Ids become names; other quoted words stay as they are."""
    assert errors.public_message(Conflict("Some", text)) == (expected or text)
    assert errors.public_message(errors.ArmError("Some", text)) == text


def test_the_texts_of_errors_are_complete() -> None:
    """Each error of the catalogue is raised somewhere, with a value for each of its places."""
    raised = set()
    for path in Path(arm_package.__path__[0]).rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "azure_error":
                (key,) = call.args
                if isinstance(key, ast.Constant):  # else one of a table: see test_references.py
                    assert isinstance(key.value, str)
                    raised.add(key.value)
                    values = {keyword.arg for keyword in call.keywords}
                    assert values == set(PLACES.findall(catalogue.read("errors")[key.value][1])), (
                        key.value
                    )
    assert not {*catalogue.read("errors")} - raised - {*users.REFUSALS.values(), *IN_USE}
