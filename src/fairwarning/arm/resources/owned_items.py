"""Named items that belong to another resource: its locks, extensions and assignments.

All items of one kind and one owner are one document, so that they are read at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fairwarning.arm.http.context import PAGE, ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import documents
from fairwarning.arm.resources.azure_scopes import AzureScope
from fairwarning.core.commands import Command, Write
from fairwarning.core.errors import Conflict
from fairwarning.service import resources
from fairwarning.service.resources import Resource

_ATTEMPTS = 5  # another client may change the items at the same time
_ITEMS_MAX = 100
Items = Mapping[str, Body]
"""Items by name. Names are case-insensitive: an item has its own as first written."""
Edit = Callable[[dict[str, Body]], None]


@dataclass(frozen=True)
class OwnedItems:
    """The items of one kind that an owner has."""

    context: ArmContext
    kind: str
    owner: AzureScope
    identity: str = ""  # of an owner that may be created again under the same name

    @property
    def id(self) -> str:
        """The id of the document."""
        return resources.resource_id(self.kind, self.owner.group, self.owner.key)

    async def read(self) -> dict[str, Body]:
        """Return the items by name in lower case."""
        return items_of(await self.context.fleet.reader.read(Resource, self.id), self.identity)

    async def change(self, actor: str, edit: Edit, follow: tuple[Command, ...] = ()) -> None:
        """Change the items, together with the commands that follow from it."""
        for _ in range(_ATTEMPTS):
            document = await self.context.fleet.reader.read(Resource, self.id)
            items = items_of(document, self.identity)
            edit(items)
            try:
                await self.context.fleet.submit(self._write(items, document, actor, follow))
            except Conflict as conflict:
                if conflict.code != "Changed":
                    raise
                continue
            return
        text = f"Other requests keep changing '{self.owner.path(self.context)}'; try again."
        raise ArmError("Conflict", text, 409)

    def _write(
        self, items: Items, document: Resource | None, actor: str, follow: tuple[Command, ...]
    ) -> Write:
        path, group = self.owner.path(self.context), self.owner.group
        if len(items) > _ITEMS_MAX:
            text = f"'{path}' may have at most {_ITEMS_MAX} of '{self.kind}'."
            raise ArmError("OperationNotAllowed", text, 409)
        body: Body = {"identity": self.identity, "owner": path, "items": items}
        return Write(
            resource=self.id,
            group=group,
            name=self.owner.key,
            body=documents.encode(body),
            within=resources.group_id(group) if group else "",
            at=document.version if document else 0,
            follow=follow,
            actor=actor,
        )


def items_of(document: Resource | None, identity: str = "") -> dict[str, Body]:
    """Return the items of a document; none if it belongs to an earlier owner of the same name."""
    body = documents.stored_body(document)
    return dict(body["items"]) if body and body["identity"] == identity else {}


async def all_documents(context: ArmContext, kind: str, group: str = "") -> list[Resource]:
    """Return the documents of a kind: of one group, or of the subscription."""
    prefix = after = resources.id_prefix(kind, group)
    rows: list[Resource] = []
    while page := await context.fleet.reader.resources(prefix, after, PAGE):
        rows += page
        after = page[-1].id
    return rows
