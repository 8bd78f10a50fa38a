"""References between resources: a table of those that the service uses, and one check of all.

Every Azure id in a document must name something that exists, whatever the type of the document
(C8). A client of one group may refer to the resources of that group only.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from fairwarning.arm import catalogue
from fairwarning.arm.http.azure_id import AzureId, parse_id
from fairwarning.arm.http.errors import ArmError, azure_error
from fairwarning.arm.http.request import Body
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.documents import choice
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core.model import Resource
from fairwarning.service import resources

REFERENCES_MAX = 1000
"""References of one resource: each is looked up when it is written."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')  # in JSON
_ID = b'"/subscriptions/'
_AT_ONCE = 50  # ids that are read before other requests go on


@dataclass(frozen=True)
class Reference:
    """A member that refers to another resource: `path` has `[]` after the name of each list."""

    source: str
    path: str
    target: str
    shown: str = ""  # the member of the target that names its users
    single: bool = False  # the target has one user only, which may delete it
    error: str = ""  # if it has another user


TABLE = tuple(Reference(**reference) for reference in catalogue.read("references"))
BY_SOURCE: Mapping[str, list[Reference]] = defaultdict(list)
for _reference in TABLE:
    BY_SOURCE[_reference.source.lower()].append(_reference)


@dataclass(frozen=True)
class Link:
    """A reference in a body: the object with the id, and the part of the resource that has it."""

    holder: Body
    path: str
    part: str = ""  # as /ipConfigurations/one


def links(value: object, path: str, place: str = "", part: str = "") -> Iterator[Link]:
    """Yield the references of a body at a path of the table."""
    if not path:
        yield Link(value if isinstance(value, dict) else {"id": value}, place, part)
        return
    step, _, rest = path.partition(".")
    name, listed, _ = step.partition("[]")
    inner = value.get(name) if isinstance(value, dict) else None
    place = f"{place}.{name}" if place else name
    if not listed:
        if inner is not None:
            yield from links(inner, rest, place, part)
        return
    for number, entry in enumerate(inner if isinstance(inner, list) else ()):
        own = entry.get("name") if isinstance(entry, dict) and rest else None
        inside = f"{part}/{name}/{own}" if own else part
        yield from links(entry, rest, f"{place}[{number}]", inside)


def target_of(link: Link) -> str:
    """Return the id that a reference names, in lower case."""
    return str(link.holder.get("id")).lower().rstrip("/")


async def check(write: ResourceWrite, body: Body) -> tuple[list[str], list[str]]:
    """Check all references of a body; write those of the table in their usual case.

    Return the resources that this one uses alone, and those of them that are removed with it.
    """
    linked = [
        (reference, link)
        for reference in BY_SOURCE.get(write.id.kind.lower(), ())
        for link in links(body, reference.path)
    ]
    others = await _other_ids(write, body)
    if len(linked) + len(others) > REFERENCES_MAX:
        raise azure_error("InvalidResourceReference/too many", most=REFERENCES_MAX)
    typed = [(reference, link, _expected_id(link, reference.target)) for reference, link in linked]
    rows = await _read(write, [*(id_ for _, _, id_ in typed), *others.values()])
    for id_ in others.values():
        await asyncio.sleep(0)  # other requests go on
        if not _exists(write.context, id_, rows) and not await _is_computed(write.context, id_):
            raise _missing(write, id_.path)
    uses: list[str] = []
    owns: list[str] = []
    for reference, link, id_ in typed:
        row = rows.get(write.context.store_id(_root(id_)))
        if row is None or not _exists(write.context, id_, rows):
            raise _missing(write, id_.path)
        link.holder["id"] = _usual_case(write.context, id_, row)
        if reference.single:
            await _check_free(write, reference, link, row, uses)
            uses.append(row.id)
            if delete_option(link.holder):
                owns.append(row.id)
    return uses, owns


def delete_option(member: Body) -> bool:
    """Whether a reference says that its target is deleted with the resource that uses it."""
    properties = member.get("properties")
    inner = properties if isinstance(properties, dict) else member
    choices = {"Delete": True, "Detach": False}
    return choice(inner, "deleteOption", choices, default=False)


def _expected_id(link: Link, kind: str) -> AzureId:
    id_ = parse_id(link.holder.get("id"))
    if id_ is None or id_.kind.lower() != kind.lower() or id_.owner:
        raise invalid_id(link.holder.get("id"), f"{link.path}.id", kind)
    return id_


def invalid_id(text: object, path: str, kind: str) -> ArmError:
    """The error for a reference that is not the id of a resource of the expected type."""
    return azure_error("LinkedInvalidPropertyId", text=str(text)[:300], path=path, kind=kind)


def same(first: Body, second: Body | None) -> bool:
    """Whether two references name the same resource."""
    return second is not None and str(first.get("id")).lower() == str(second.get("id")).lower()


async def _check_free(
    write: ResourceWrite, reference: Reference, link: Link, row: Resource, uses: list[str]
) -> None:
    """Refuse a target that another resource, or another part of this one, uses."""
    if write.is_free(row) and row.id not in uses:
        return
    user = await user_path(write.context, row) if row.used_by else write.path
    configuration, target = f"{write.path}{link.part}", link.holder["id"]
    raise azure_error(reference.error, configuration=configuration, target=target, user=user)


async def user_path(context: ArmContext, row: Resource) -> str:
    """Return the Azure id of the resource that uses another one."""
    user = await context.fleet.reader.read(Resource, row.used_by)
    return context.path_of(user) if user else "that is being deleted"


async def _other_ids(write: ResourceWrite, body: Body) -> dict[str, AzureId]:
    """Return the ids in a body, without those of the resource and its parts, if not too many."""
    own = f"{write.path.lower()}/"
    others: dict[str, AzureId] = {}
    for number, text in enumerate(_ids(body), 1):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)  # other requests go on
        lower = text.lower()
        if lower in others or f"{lower}/".startswith(own):
            continue
        if (id_ := parse_id(text)) and id_.group:
            others[lower] = id_
        if len(others) > REFERENCES_MAX:
            break
    return others


def _ids(body: Body) -> Iterator[str]:
    """Yield the strings and names of members in a body that begin like an id; read no others."""
    encoded = msgspec.json.encode(body)
    lower, end = encoded.lower(), 0
    while (start := lower.find(_ID, end)) >= 0:
        end = start + 1
        is_string = encoded[start - 1 : start] != b"\\"  # else it is a quote in a string
        if is_string and (text := _STRING.match(encoded, start)):
            yield msgspec.json.decode(text[0])
            end = text.end()


async def _read(write: ResourceWrite, ids: Iterable[AzureId]) -> dict[str, Resource]:
    """Read the resources that ids name, and those around them, in one visit of the store."""
    context, wanted = write.context, set[str]()
    for id_ in ids:
        if id_.subscription.lower() != context.cloud.subscription.lower():
            raise _missing(write, id_.path)
        if write.confined and id_.group.lower() != write.id.group.lower():
            raise azure_error(
                "InvalidResourceReference/other group", path=id_.path[:300], user=write.path
            )
        wanted.add(_row_of(context, _root(id_)))
    return await context.read_all(Resource, wanted)


def _root(id_: AzureId) -> AzureId:
    """Return the resource that is not nested in another one and belongs to none."""
    while parent := id_.parent():
        id_ = parent
    return id_


def _exists(context: ArmContext, id_: AzureId, rows: Mapping[str, Resource]) -> bool:
    """Whether a resource exists. Of one nested in a stored one, only the outermost is checked."""
    root = _root(id_)
    row, kind = rows.get(_row_of(context, root)), context.types.get(root.kind)
    if row is None or kind is None or id_ is root:
        return row is not None
    nested = id_.kind.split("/")[2].lower() if id_.owner is None else ""
    part = next((part for part in kind.parts if part.lower() == nested), "")
    return not part or named_part(row, part, id_.names[1]) is not None


async def _is_computed(context: ArmContext, id_: AzureId) -> bool:
    """Whether an id names something of a Flexible set's instance, which has no row."""
    root = _root(id_)
    kind = context.types.get(root.kind)
    return bool(kind and kind.exists and await kind.exists(context, root))


def _row_of(context: ArmContext, root: AzureId) -> str:
    """Return the id in the store of a resource or, without a kind, of a group."""
    return context.store_id(root) if root.kind else resources.group_id(root.group)


def named_part(row: Resource, part: str, name: str) -> Body | None:
    """Return the part of a resource with this name; None if there is none."""
    return _named_parts(row.body, part).get(name.lower())


@lru_cache(maxsize=4)  # a request names the same few resources again and again
def _named_parts(body: str, part: str) -> Mapping[str, Body]:
    properties: Body = msgspec.json.decode(body).get("properties", {})
    return {str(entry["name"]).lower(): entry for entry in properties.get(part) or ()}


def _usual_case(context: ArmContext, id_: AzureId, row: Resource) -> str:
    path, kind = context.path_of(row), context.types.canonical(id_.kind)
    for part, own in zip(kind.split("/")[2:], id_.names[1:], strict=True):
        entry = named_part(row, part, own)
        path = f"{path}/{part}/{entry['name'] if entry else own}"
    return path


def _missing(write: ResourceWrite, path: str) -> ArmError:
    return azure_error("InvalidResourceReference/not found", path=path[:300], user=write.path)
