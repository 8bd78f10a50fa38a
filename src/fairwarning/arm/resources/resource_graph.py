"""Azure Resource Graph: `POST /providers/Microsoft.ResourceGraph/resources` (C1)."""

from starlette.responses import Response

from fairwarning.arm.graph import query as graph
from fairwarning.arm.graph.expressions import Row
from fairwarning.arm.graph.tokens import GraphQueryError
from fairwarning.arm.http.context import (
    ArmContext,
    decode_skip_token,
    encode_skip_token,
    invalid_skip_token,
)
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import Route
from fairwarning.arm.resources.documents import choice, invalid_value, typed_value
from fairwarning.arm.resources.graph_tables import TABLE_ROWS

_ROWS_MAX = 1000  # of a page, as on Azure
_ROWS = 100
_FORMATS = {"objectArray": "objectArray", "table": "table"}
_TABLE_UNTIL = "2020"  # before, the default format was a table
_TOKEN_DIGITS = 9


async def _resources(context: ArmContext, request: ArmRequest) -> Response:
    """Run a query over everything that the client may read."""
    body = await request.body()
    _check_scope(context, body)
    text = typed_value(body, "query", str, "")
    try:
        query = graph.parse(text)
    except GraphQueryError as error:
        raise ArmError("InvalidQuery", error.message) from error
    rows = await TABLE_ROWS[query.table](context, request.principal.group, query.types)
    result = query.run(rows)
    skip = _skip(body)
    size = _size(body)
    page = result[skip : skip + size]
    more = len(result) > skip + size
    return json_response(
        {
            "totalRecords": len(result),
            "count": len(page),
            "resultTruncated": "false",
            "facets": [],
            **({"$skipToken": encode_skip_token(str(skip + size))} if more else {}),
            "data": _formatted(page, _format(request, body)),
        }
    )


def _check_scope(context: ArmContext, body: Body) -> None:
    """Refuse what would change the result: other subscriptions, management groups and facets."""
    for name in ("managementGroups", "facets"):
        if body.get(name):
            raise ArmError("InvalidParameter", f"'{name}' is not supported; leave it out.")
    names = typed_value(body, "subscriptions", list)
    own = context.cloud.subscription.lower()
    if names is not None and own not in [str(name).lower() for name in names]:
        raise invalid_value("subscriptions", names, f"a list with {own}, or left out")


def _skip(body: Body) -> int:
    options = typed_value(body, "options", dict, {})
    token = typed_value(options, "$skipToken", str, "")
    if token:
        place = decode_skip_token(token)
        if not place.isascii() or not place.isdigit() or len(place) > _TOKEN_DIGITS:
            raise invalid_skip_token()
        return int(place)
    skip: int = typed_value(options, "$skip", int, 0)
    if skip < 0:
        raise invalid_value("options.$skip", skip, "0 or more")
    return skip


def _size(body: Body) -> int:
    options = typed_value(body, "options", dict, {})
    size: int = typed_value(options, "$top", int, _ROWS)
    if not 1 <= size <= _ROWS_MAX:
        raise invalid_value("options.$top", size, f"1 to {_ROWS_MAX}")
    return size


def _format(request: ArmRequest, body: Body) -> str:
    default = "table" if request.version < _TABLE_UNTIL else "objectArray"
    chosen: str = choice(body, "options.resultFormat", _FORMATS, default)
    return chosen


def _formatted(rows: list[Row], form: str) -> object:
    if form == "objectArray":
        return rows
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [{"name": name, "type": _type(rows, name)} for name in names]
    return {"columns": columns, "rows": [[row.get(name) for name in names] for row in rows]}


def _type(rows: list[Row], name: str) -> str:
    value = next((row[name] for row in rows if row.get(name) is not None), "")
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return "string" if isinstance(value, str) else "object"


ROUTES = (
    Route("POST", "/providers/Microsoft.ResourceGraph/resources", _resources, reads_only=True),
)
