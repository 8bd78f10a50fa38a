"""The activity log: `Microsoft.Insights/eventtypes/management/values`, from the journal (C1)."""

import re
from collections.abc import Callable, Mapping

from starlette.responses import Response

from fairwarning.arm.http.context import PAGE, ArmContext, invalid_skip_token
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import SUBSCRIPTION, Route
from fairwarning.arm.resources.activity_records import records
from fairwarning.core import times
from fairwarning.core.errors import Refused
from fairwarning.service.listing.journal import JournalFilter, newest_lines

_LINES = 1000  # of the journal, read at once
_READS = 5  # for a page, which may then be short
_TERM = re.compile(
    r"\s*(?P<name>\w{1,30})\s+(?P<operator>eq|ge|le)\s+(?:'(?P<text>[^']{0,600})'|(?P<bare>\S{1,60}))\s*",
    re.IGNORECASE,
)
_LINE_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)

Condition = Callable[[Body], bool]


def _equals(*path: str) -> Callable[[str], Condition]:
    """Return a condition on the value at a path of a record, in any case."""

    def condition(value: str) -> Condition:
        def holds(record: Body) -> bool:
            present: object = record
            for step in path:
                assert isinstance(present, dict)
                present = present[step]
            return str(present).lower() == value.lower()

        return holds

    return condition


_RESOURCE = _equals("resourceId")
_CONDITIONS: Mapping[str, Callable[[str], Condition]] = {
    "resourcegroupname": _equals("resourceGroupName"),
    "resourceid": _RESOURCE,
    "resourceuri": _RESOURCE,
    "resourceprovider": _equals("resourceProviderName", "value"),
    "resourcetype": _equals("resourceType", "value"),
    "correlationid": _equals("correlationId"),
    "caller": _equals("caller"),
    "status": _equals("status", "value"),
    "operationname": _equals("operationName", "value"),
    "levels": _equals("level"),
    "eventchannels": lambda value: lambda _: "operation" in value.lower(),
}
_TIME = "eventtimestamp"


class ActivityFilter:
    """The $filter of a request: a period, and equalities that must all hold."""

    def __init__(self, expression: str) -> None:
        self.since: float | None = None
        self.until: float | None = None
        self.conditions: list[Condition] = []
        for term in re.split(r"\s+and\s+", expression.strip(), flags=re.IGNORECASE):
            if term:
                self._add(term)

    def _add(self, term: str) -> None:
        match = _TERM.fullmatch(term)
        if match is None:
            raise _unsupported(term)
        name, operator = match["name"].lower(), match["operator"].lower()
        value = match["text"] if match["text"] is not None else match["bare"]
        if name == _TIME and operator in {"ge", "le"}:
            self._add_time(operator, value)
        elif name in _CONDITIONS and operator == "eq":
            self.conditions.append(_CONDITIONS[name](value))
        else:
            raise _unsupported(term)

    def _add_time(self, operator: str, value: str) -> None:
        try:
            moment = times.parse_date(value)
        except Refused as error:
            raise ArmError("InvalidFilterInQueryString", error.message) from error
        if operator == "ge":
            self.since = moment
        else:
            self.until = moment


def _unsupported(term: str) -> ArmError:
    names = ", ".join(_CONDITIONS)
    text = (
        f"The condition '{term[:80]}' of the $filter is not supported. Use 'eventTimestamp ge "
        "TIME', 'eventTimestamp le TIME' and NAME eq 'VALUE', joined by 'and', where NAME is one "
        f"of {names}."
    )
    return ArmError("InvalidFilterInQueryString", text)


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    """List a page of records, the newest first."""
    wanted = ActivityFilter(request.query("$filter"))
    selected = {name.strip() for name in request.query("$select").split(",") if name.strip()}
    before = _before(request.query("$skiptoken"))
    period = JournalFilter(since=wanted.since, until=wanted.until)
    own = request.principal.group.lower()
    value: list[Body] = []
    for _ in range(_READS):
        entries, before = await newest_lines(context.fleet, period, before, _LINES)
        for record in await records(context, entries):
            document = record.document(context)
            visible = not own or record.scope.group.lower() == own
            if visible and all(condition(document) for condition in wanted.conditions):
                value.append(document)
            if len(value) == PAGE:
                before = record.number
                break
        if before is None or len(value) == PAGE:
            break
    token = "" if before is None else str(before)
    body = [_select(document, selected) for document in value]
    return json_response({"value": body, **context.next_link(request, token)})


def _before(token: str) -> int | None:
    if not token:
        return None
    if not _LINE_NUMBER.fullmatch(token):
        raise invalid_skip_token()
    return int(token)


def _select(document: Body, names: set[str]) -> Body:
    lower = {name.lower() for name in names}
    return {key: v for key, v in document.items() if not names or key.lower() in lower}


ROUTES = (
    Route(
        "GET", f"{SUBSCRIPTION}/providers/Microsoft.Insights/eventtypes/management/values", _list
    ),
)
