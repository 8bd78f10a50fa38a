"""Operations, the newest first, in the order in which the journal has them."""

from fairwarning.core.decision import FactType
from fairwarning.core.model import Operation, Ref
from fairwarning.service.fleet import Fleet

_PAGE = 1000
_LINES = 20_000  # searched for a page, which may then be short


async def newest_operations(
    fleet: Fleet, status: str, before: int | None, limit: int
) -> tuple[list[Operation], int | None]:
    """Return operations, and the line before which the next page begins, if there may be one.

    A status selects those that have it. Dropped operations are left out.
    """
    matching: list[Operation] = []
    for _ in range(0, _LINES, _PAGE):
        lines = await fleet.reader.latest_lines(_PAGE, before=before)
        accepted: dict[Ref, int] = {
            entry.line.entity: entry.number
            for entry in lines
            if entry.line.fact.type is FactType.OPERATION_ACCEPTED
        }
        for ref, operation in (await fleet.reader.read_all(accepted)).items():
            if isinstance(operation, Operation) and status in {"", operation.status}:
                matching.append(operation)
            if len(matching) == limit:
                return matching, accepted[ref]
        if len(lines) < _PAGE:
            return matching, None
        before = lines[-1].number
    return matching, before


async def operations_by_prefix(fleet: Fleet, prefix: str, limit: int) -> list[Operation]:
    """Return operations whose ids begin so, by id."""
    exact = await fleet.reader.read(Operation, prefix)
    names = await fleet.reader.list_ids(Operation, prefix, limit)
    refs: list[Ref] = [(Operation, name) for name in names if name.startswith(prefix)]
    others = (await fleet.reader.read_all(refs)).values()
    candidates = [exact, *others]
    return [operation for operation in candidates if isinstance(operation, Operation)][:limit]
