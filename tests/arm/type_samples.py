"""A resource of each type: those with a record, their nested types, and some only stored ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairwarning.arm.registry import TYPES
from fairwarning.arm.types.names import INSTANCE, MACHINE, NETWORK
from tests.arm.bodies import COMPUTE, VM, WEB
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

Json = dict[str, Any]

RG = "/resourceGroups/rg"
PLACE: Json = {"location": "local"}
BODY: Json = {"location": "westus", "tags": {"a": "b"}, "properties": {"theirs": {"own": [1]}}}
_ACCOUNT = f"{RG}/providers/Microsoft.Storage/storageAccounts/one"


@dataclass(frozen=True)
class TypeSample:
    """A resource to create, and those that have to exist before."""

    kind: str
    path: str
    body: Json
    needs: tuple[tuple[str, Json], ...] = ()
    new_status: int = 201
    acts: bool = True  # its type has a record, or is a part of one that has
    part: bool = False  # it is stored in its parent, and has neither a location nor tags

    @property
    def id(self) -> str:
        """The Azure id."""
        return f"{SUBSCRIPTION}{self.path}"

    @property
    def name(self) -> str:
        """The name, without the names of its parents."""
        return self.path.rpartition("/")[2]

    @property
    def list_path(self) -> str:
        """The path of the list that has it: of a group, of its parent, or of the subscription."""
        return self.path.rpartition("/")[0]

    @property
    def in_group(self) -> bool:
        """Whether it belongs to a resource group."""
        return self.path.startswith(RG)

    @property
    def outermost(self) -> bool:
        """Whether it is a resource of a group that neither is nested nor belongs to another."""
        return self.in_group and self.path.count("/") == f"{RG}/providers/a/b/c".count("/")

    def prepare(self, arm: ArmHarness) -> None:
        """Create the group and what has to exist before."""
        arm.group()
        for path, body in self.needs:
            assert arm.put(path, body).status in {200, 201}, path

    def create(self, arm: ArmHarness) -> Json:
        """Create it, and return its document."""
        self.prepare(arm)
        response = arm.put(self.path, self.body)
        assert response.status == self.new_status, response.body
        document: Json = response.json
        return document


def _with_record() -> list[TypeSample]:
    return [
        TypeSample(
            kind.name,
            f"{RG}/providers/{kind.name}/one",
            {**BODY, **_MORE.get(kind.name, {})},
            new_status=kind.new_status,
        )
        for kind in TYPES
        if kind.listed
    ]


_MORE: Mapping[str, Json] = {NETWORK: {"properties": {"theirs": {"own": [1]}, "subnets": []}}}


def _parts() -> list[TypeSample]:
    return [
        TypeSample(
            f"{kind.name}/{part}",
            f"{RG}/providers/{kind.name}/parent/{part}/one",
            {"properties": {"theirs": {"own": [1]}}},
            needs=((f"{RG}/providers/{kind.name}/parent", PLACE),),
            part=True,
        )
        for kind in TYPES
        for part in kind.nested
    ]


def _stored(kind: str, path: str, *needs: tuple[str, Json]) -> TypeSample:
    return TypeSample(kind, path, BODY, needs, acts=False)


WITH_RECORD = _with_record()
PARTS = _parts()
STORED = [
    _stored("Microsoft.Storage/storageAccounts", _ACCOUNT),
    _stored(
        "Microsoft.Storage/storageAccounts/blobServices/containers",
        f"{_ACCOUNT}/blobServices/default/containers/one",
        (_ACCOUNT, PLACE),
    ),
    _stored(f"{MACHINE}/extensions", f"{VM}/extensions/one", (VM, PLACE)),
    _stored(
        f"{INSTANCE}/runCommands",
        f"{WEB}/virtualMachines/0/runCommands/one",
        (WEB, {**PLACE, "sku": {"capacity": 1}}),
    ),
    _stored(
        "Microsoft.Authorization/roleAssignments",
        f"{VM}/providers/Microsoft.Authorization/roleAssignments/one",
        (VM, PLACE),
    ),
    _stored("Microsoft.Compute/images", f"{COMPUTE}/images/one"),
    _stored(
        "Microsoft.Authorization/policyDefinitions",
        "/providers/Microsoft.Authorization/policyDefinitions/one",
    ),
]
"""Outermost, nested in a stored and in an acting resource, extension resources, of no group."""
SAMPLES = [*WITH_RECORD, *PARTS, *STORED]


def label(sample: TypeSample) -> str:
    """Return the name of a sample in the name of a test."""
    return sample.kind.removeprefix("Microsoft.")


def without_etags(value: Any) -> Any:  # noqa: ANN401  (any JSON)
    """Return a document without ETags, which change with every write."""
    if isinstance(value, dict):
        return {key: without_etags(part) for key, part in value.items() if key != "etag"}
    return [without_etags(part) for part in value] if isinstance(value, list) else value
