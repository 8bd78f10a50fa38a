"""Ann: valid requests to every port with random changes, drawn from a seed."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from starlette.routing import Route

from fairwarning.console.access import COOKIE
from fairwarning.console.api import openapi
from fairwarning.core.errors import FairwarningError
from fairwarning.service.config import fleet_file
from fairwarning.service.tokens import Principal, TokenUse
from tests.arm.everything import ANN, OPERATOR, OURS, TEMPLATE, THEIRS, Json, RouteRequest
from tests.fixtures.arm import SUBSCRIPTION
from tests.fixtures.console import HOST
from tests.fixtures.http import Response
from tests.fixtures.tokens import sign_token
from tests.hostile import mutations
from tests.hostile.arm_requests import (
    HOW,
    NO_MUTATION,
    VALUES,
    WORDS,
    MutatedRequest,
    changed_body,
    encoded_body,
    mutated,
    random_mutation,
)
from tests.hostile.arm_templates import random_expression
from tests.hostile.attacked_service import AttackedService
from tests.hostile.wire import Client

_FORM = ("Content-Type", "application/x-www-form-urlencoded")
_METADATA = {100, 200, 304, 400, 404, 405, 408, 410, 413, 429, 431}


def _is_excluded(path: str) -> bool:
    """Whether a path has an answer without end."""
    return path.endswith("/stream")


class HostileTenant:
    """Ann: she sends anything, to every port, with her token or as her machines.

    As the operator (`principal`) her requests reach everything.
    """

    def __init__(
        self,
        service: AttackedService,
        requests: list[RouteRequest],
        rng: Random,
        principal: Principal = ANN,
    ) -> None:
        self._service = service
        self._requests = requests
        self._groups = [r for r in requests if r.route.path.endswith("/resourceGroups/{group}")]
        self._rng = rng
        self._principal = principal
        self._document = openapi.document()
        self._paths = [path for path in self._document["paths"] if not _is_excluded(path)]
        routes = (route for route in service.app.routes if isinstance(route, Route))
        self._pages = [
            route
            for route in routes
            if not route.path.startswith("/api") and not _is_excluded(route.path)
        ]
        self._names: dict[str, list[str]] = {}
        self.last: object = None
        """The last request, for the report of a failure."""
        self.learn()

    def learn(self) -> None:
        """Learn the names and events that there are now."""
        service = self._service
        if not service.machines(OURS):  # she has deleted her group
            for request in (*self._groups, *self._requests):
                if request.route.method == "PUT":
                    self._send(mutated(request, NO_MUTATION))
        self._machines = service.machines(OURS)
        self._events = [*service.events(OURS), *service.events(THEIRS), "x"]
        scopes = sorted({scope for scope, _ in self._machines.values()})
        self._names = {
            "machine": list(self._machines),
            "scope": scopes,
            "set": [scope.partition("/")[0] for scope in scopes if "/" in scope],
            "event": self._events,
            "rollout": ["r1", "r2"],
            "": [*_TEXTS, *self._machines, *scopes],
        }

    def attack(self) -> None:
        """Send one request; no answer is an error of the service's own."""
        surfaces: tuple[Callable[[], object], ...] = (
            self._control, self._control, self._control, self._template, self._api, self._api,
            self._form, self._metadata, self._metadata, self._fleet_file,
        )  # fmt: skip
        self._rng.choice(surfaces)()

    def _answered(self, response: Response) -> None:
        assert response.status < 500, (self.last, response)

    def _send(self, sent: MutatedRequest) -> None:
        self.last = sent
        self._answered(self._service.control(sent, self._principal))

    def _control(self) -> None:
        mutation = NO_MUTATION if self._rng.random() < 0.3 else random_mutation(self._rng)
        sent = mutated(self._rng.choice(self._requests), mutation)
        if self._rng.random() < 0.1:  # names of Bob's
            path, body = sent.path.replace(OURS, THEIRS), sent.body.replace(b"Ours", b"Theirs")
            sent = MutatedRequest(sent.method, path, sent.query, body, sent.headers)
        self._send(sent)

    def _template(self) -> None:
        rng = self._rng
        changes: list[tuple[int, str, Any]] = [
            (rng.randrange(200), rng.choice(HOW), rng.randrange(200))
            for _ in range(rng.choice((0, 1, 2, 4)))
        ]
        changes += [
            (rng.randrange(200), "put", f"[{random_expression(rng)}]")
            for _ in range(rng.choice((0, 1, 2)))
        ]
        body = encoded_body(changed_body(TEMPLATE, changes), ())
        home = f"{SUBSCRIPTION}/resourceGroups/{OURS}/providers/Microsoft.Resources/deployments"
        name = f"{home}/{rng.choice(('one', 'new', 'made'))}"
        self._send(MutatedRequest("PUT", name, "api-version=2024-11-01", body, {}))

    # --- The console ---

    def _headers(self, *, page: bool) -> list[tuple[str, str]]:
        token = self._rng.choice(("", "x", "a.b.c")) if self._rng.random() < 0.1 else None
        if token is None:
            use = TokenUse.PAGE if page else TokenUse.API
            token = sign_token(self._service.tokens, self._principal, use)
        if page:
            return [("Cookie", f"{COOKIE}={token}"), ("Origin", f"http://{HOST}"), _FORM]
        return [("Authorization", f"Bearer {token}")]

    def _console(self, method: str, target: str, body: bytes, *, page: bool) -> None:
        self.last = method, target, body
        headers = [("Host", HOST), *self._headers(page=page)]
        self._answered(self._service.send(method, target, headers, body))
        self._service.settle()

    def _api(self) -> None:
        rng = self._rng
        path = rng.choice(self._paths)
        method, operation = rng.choice(list(self._document["paths"][path].items()))
        query = {}
        for parameter in operation["parameters"]:
            about = path.split("/")[2] if parameter["in"] == "path" else parameter["name"]
            text = str(self._value(parameter["schema"], about))
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", quote(text, safe=""))
            elif parameter["in"] == "query" and rng.random() < 0.4:
                query[parameter["name"]] = text
        body = b""
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            body = json.dumps(self._value(schema)).encode()
        if rng.random() < 0.1:
            body = mutations.mutated(rng, body)
        target = f"{path}?{urlencode(query, errors='replace')}"
        self._console(method.upper(), target, body, page=False)

    def _value(self, schema: Json, about: str = "", depth: int = 5) -> Any:  # noqa: ANN401  (any JSON, a case each)
        """Return a value of a schema of the OpenAPI document, or now and then another.

        `about` is the name of the member, or else of the collection.
        """
        rng = self._rng
        if rng.random() < 0.04:
            return deepcopy(rng.choice(VALUES))
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return self._value(self._document["components"]["schemas"][name], about, depth)
        if choices := schema.get("anyOf") or schema.get("oneOf"):
            return self._value(rng.choice(choices), about, depth)
        if "enum" in schema:
            return rng.choice(schema["enum"])
        kind = schema.get("type")
        if kind == "object" and depth:
            required = schema.get("required", ())
            return {
                name: self._value(inner, name, depth - 1)
                for name, inner in schema.get("properties", {}).items()
                if name in required or rng.random() < 0.2
            }
        if kind == "array" and depth:
            items = schema.get("items", {})
            return [self._value(items, about, depth - 1) for _ in range(rng.randrange(3))]
        if kind == "boolean":
            return rng.random() < 0.5
        if kind in {"integer", "number"}:
            edges = (schema.get("minimum", 0), schema.get("maximum", 10**9), 1, 2, 60, 900, -1)
            return rng.choice(edges)
        names = self._names.get(about.removesuffix("s"), []) or self._names[""]
        return rng.choice(names) if rng.random() < 0.8 else rng.choice(WORDS)

    def _form(self) -> None:
        rng = self._rng
        route = rng.choice(self._pages)
        method = rng.choice(sorted(route.methods or {"GET"}))
        path = re.sub(
            r"{\w+(:\w+)?}",
            lambda _: quote(str(self._value({}, route.path.split("/")[1])), safe=""),
            route.path,
        )
        names = rng.sample(_FIELDS, rng.randrange(6))
        fields = {name: str(self._value({}, name)) for name in names}
        body = urlencode(fields, errors="replace").encode()
        if rng.random() < 0.2:
            body = mutations.mutated(rng, body)
        self._console(method, path, body, page=True)

    # --- Other ---

    def _metadata(self) -> None:
        if not self._machines:
            return
        machine, (_, address) = self._rng.choice(sorted(self._machines.items()))
        self.last = machine, mutations.request(self._rng, self._events)
        self._service.learn_address(machine, address)
        with Client(self._service.open(machine)) as client:
            client.send(self.last[1])
            statuses = {reply.status for reply in client.finish()}
        assert statuses <= _METADATA, (self.last, statuses)

    def _fleet_file(self) -> None:
        """Read a fleet file with changes; only the operator's is applied."""
        text = _FLEET
        if self._rng.random() < 0.7:
            text = mutations.mutated(self._rng, _FLEET.encode()).decode("utf-8", "replace")
        self.last = text
        try:
            file = fleet_file.read(text)
        except FairwarningError:
            return
        if self._principal is OPERATOR:
            with suppress(FairwarningError):
                self._service.run(fleet_file.apply(file, self._service.fleet.submit))
            self._service.settle()


_TEXTS = (
    "a", "b", "r1", "PT5M", "5m", "900", "10.0.0.9", "2026-01-09T13:00:00Z", "Spot", "1", "Delete",
    "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "Sunday 02:00Z PT2H", "freeze", "true",
    "10.9.0.0/24",
)  # fmt: skip
_FIELDS = (
    "name", "machine", "machines", "scope", "scopes", "sets", "id", "ids", "key", "confirm", "kind",
    "action", "capacity", "instances", "notice", "priority", "url", "secret", "form", "token",
    "advance", "rate", "duration", "batch", "halt_percent", "by_host", "role", "group",
    "not_before",
)  # fmt: skip
_FLEET = Path(__file__).with_name("fleet.toml").read_text("utf-8")
