"""What Azure has no public interface for, as JSON: what happens to machines, time, faults (C4)."""

import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fairwarning.console import access
from fairwarning.core import commands
from fairwarning.core.commands import Command, Operate
from fairwarning.core.errors import FairwarningError, NotFound, Refused
from fairwarning.core.model import Event, Operation, Scope
from fairwarning.core.times import iso
from fairwarning.service.clock import VirtualClock
from fairwarning.service.faults import Fault, FaultKind
from fairwarning.service.fleet import Fleet
from fairwarning.service.lookup import Place, machine_called
from fairwarning.service.tokens import Tokens

Body = Mapping[str, Any]
Handler = Callable[[Request], Awaitable[Response]]

_PAGE_MACHINES = 1000
_BODY_BYTES = 64 * 1024
_FAR = 10**12  # the clock itself knows how far it goes; this much a number may say

# What happens to a machine; what users do to instances of a scale set goes through their set.
_ACTIONS: Mapping[str, type[Operate]] = {
    "restart": commands.Restart,
    "redeploy": commands.Redeploy,
    "reimage": commands.Reimage,
    "stop": commands.Stop,
    "deallocate": commands.Deallocate,
    "start": commands.Start,
    "delete": commands.Delete,
    "evict": commands.Evict,
    "fail": commands.Fail,
}


class Api:
    """The routes, over one fleet."""

    def __init__(self, fleet: Fleet, tokens: Tokens) -> None:
        self._fleet = fleet
        self._tokens = tokens

    def routes(self) -> list[Route]:
        """Every route; each demands the token."""
        return [
            self._route("GET", "/api/machines", self._machines),
            self._route("POST", "/api/machines/{name:path}/{action}", self._act),
            self._route("GET", "/api/clock", self._show_clock),
            self._route("POST", "/api/clock", self._set_clock),
            self._route("POST", "/api/faults", self._set_fault),
            self._route("DELETE", "/api/faults", self._clear_faults),
        ]

    def _route(self, method: str, path: str, handler: Handler) -> Route:
        async def guarded(request: Request) -> Response:
            try:
                access.check(request, self._tokens)
                return await handler(request)
            except FairwarningError as error:
                told = {"code": error.code, "message": error.message}
                return JSONResponse({"error": told}, error.status)

        return Route(path, guarded, methods=[method])

    # --- Machines ---

    async def _machines(self, request: Request) -> Response:
        """A page of machines, in order of their numbers; `next` is what to ask for after it."""
        after = _number(request.query_params.get("after", "0"))
        places = await self._fleet.places(after, _PAGE_MACHINES)
        shown = [await self._shown(place) for place in places]
        last = places[-1].number if len(places) == _PAGE_MACHINES else None
        return JSONResponse({"machines": shown, "next": last})

    async def _shown(self, place: Place) -> dict[str, object]:
        machine = place.machine
        scope = await self._fleet.read(Scope, place.scope)
        events = scope.events.values() if scope else ()
        return {
            "name": machine.name,
            "scope": place.scope,
            "number": place.number,
            "power": machine.power.value,
            "priority": machine.priority.value,
            "update_domain": machine.update_domain,
            "events": [_event(event) for event in events if machine.name in event.resources],
        }

    async def _act(self, request: Request) -> Response:
        """Let something happen to a machine; a repeat under the same key has no effect (IC2)."""
        body = await _body(request, "duration_seconds")
        place = await machine_called(self._fleet, request.path_params["name"])
        operation = request.headers.get("idempotency-key") or uuid.uuid4().hex
        command = await self._command(request.path_params["action"], place, operation, body)
        done = await self._fleet.submit(command)
        scope = await self._fleet.read(Scope, place.scope)
        polled = scope is not None and scope.enabled
        return JSONResponse({"operation": _operation(done), "polled": polled}, 202)

    async def _command(self, action: str, place: Place, operation: str, body: Body) -> Command:
        machines = (place.machine.name,)
        if action == "freeze":
            return commands.Maintain(
                scope=place.scope, machines=machines, operation=operation, **body
            )
        kind = _ACTIONS.get(action)
        if kind is None:
            known = ", ".join([*_ACTIONS, "freeze"])
            raise NotFound(
                "UnknownAction", f"there is no action {action[:40]!r}; there are {known}"
            )
        if body:
            raise Refused("BadBody", f"{action} takes no settings")
        scope = await self._fleet.read(Scope, place.scope)
        if scope is not None and scope.owner and kind is not commands.Fail:
            instances = (place.machine.instance,)
            return commands.OperateInstances(
                set=scope.owner, operation=operation, action=kind, instances=instances
            )
        return kind(scope=place.scope, machines=machines, operation=operation)

    # --- Time ---

    async def _show_clock(self, _: Request) -> Response:
        clock = self._fleet.clock
        virtual = isinstance(clock, VirtualClock)
        rate = clock.rate if isinstance(clock, VirtualClock) else 1.0
        return JSONResponse({"now": iso(int(clock.now())), "virtual": virtual, "rate": rate})

    async def _set_clock(self, request: Request) -> Response:
        """`advance` by so many seconds, or run at a `rate` from now on (0 freezes)."""
        body = await _body(request, "advance", "rate")
        for name, do in (("advance", self._fleet.advance), ("rate", self._fleet.run_clock)):
            if name in body:
                await do(_seconds(name, body[name]))
        return await self._show_clock(request)

    # --- Faults on demand (M21) ---

    async def _set_fault(self, request: Request) -> Response:
        body = dict(await _body(request, "kind", "machine", "count", "seconds", "delay_seconds"))
        if name := body.pop("machine", ""):
            place = await machine_called(self._fleet, str(name))
            body |= {"scope": place.scope, "machine": place.machine.name}
        self._fleet.faults.put(Fault(**body | {"kind": _kind(body.get("kind"))}))
        return Response(status_code=204)

    async def _clear_faults(self, _: Request) -> Response:
        self._fleet.faults.clear()
        return Response(status_code=204)


def _event(event: Event) -> dict[str, object]:
    return {
        "id": event.id,
        "type": event.type.value,
        "status": event.status.value,
        "not_before": iso(event.not_before),
    }


def _operation(operation: Operation | None) -> dict[str, object] | None:
    if operation is None:
        return None
    return {
        "id": operation.id,
        "kind": operation.kind,
        "status": operation.status.value,
        "error": operation.error,
    }


async def _body(request: Request, *keys: str) -> Body:
    """The request's JSON object, with no other keys than these; nothing at all is an empty one."""
    raw = b""
    async for part in request.stream():
        raw += part
        if len(raw) > _BODY_BYTES:
            raise Refused("BadBody", f"a body has at most {_BODY_BYTES} bytes")
    try:
        body: Body = msgspec.json.decode(raw or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused("BadBody", "the body must be a JSON object") from error
    for key in body:
        if key not in keys:
            raise Refused("BadBody", f"there is no {key[:40]!r}; there are {', '.join(keys)}")
    return body


def _seconds(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _FAR:
        return float(value)
    raise Refused("BadBody", f"{name} must be a number below {_FAR:g}")


def _number(text: str) -> int:
    if re.fullmatch("[0-9]{1,18}", text):
        return int(text)
    raise Refused("BadQuery", "after must be a whole number of at most 18 digits")


def _kind(value: object) -> FaultKind:
    for kind in FaultKind:
        if value == kind.value:
            return kind
    raise Refused("BadFault", f"kind must be one of {', '.join(FaultKind)}")
