"""The control plane on a test bed: requests to the application itself, in virtual time.

with Control() as arm:
    arm.put("/resourceGroups/rg", {"location": "local"})
    assert arm.get("/resourceGroups/rg").json["name"] == "rg"
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from fairwarning.arm.app import Application, application
from fairwarning.core.record import changed
from fairwarning.service import fleetfile
from fairwarning.service.settings import TENANT, Cloud, ControlPlane
from fairwarning.service.tokens import Principal, Role, Tokens
from tests.fixtures.fleet import FleetHarness

VERSION = "2024-11-01"
OPERATOR = Principal(name="operator", role=Role.OPERATOR)
SUBSCRIPTION = f"/subscriptions/{Cloud().subscription}"
KEY = b"k" * 32


@dataclass(frozen=True)
class Answer:
    """What a client got."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401  (whatever it is)
        """The body, read."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error."""
        code: str = self.json["error"]["code"]
        return code

    @property
    def message(self) -> str:
        """The sentence of an error."""
        message: str = self.json["error"]["message"]
        return message


class Control(FleetHarness):
    """A fleet and its control plane. Paths begin below the subscription, unless with `//`."""

    app: Application

    def __init__(self, settings: ControlPlane | None = None, **bed: Any) -> None:  # noqa: ANN401
        super().__init__(**bed)
        self.tokens = Tokens(KEY, TENANT)
        self.settings = settings or ControlPlane()
        self.principal = OPERATOR

    def _start(self) -> None:
        super()._start()
        self.app = application(self.fleet, Cloud(), self.tokens, self.settings)

    # --- Asking ---

    def get(self, path: str, **given: Any) -> Answer:  # noqa: ANN401
        """GET."""
        return self.ask("GET", path, **given)

    def put(self, path: str, body: object, **given: Any) -> Answer:  # noqa: ANN401
        """PUT."""
        return self.ask("PUT", path, body, **given)

    def patch(self, path: str, body: object, **given: Any) -> Answer:  # noqa: ANN401
        """PATCH."""
        return self.ask("PATCH", path, body, **given)

    def post(self, path: str, body: object = None, **given: Any) -> Answer:  # noqa: ANN401
        """POST."""
        return self.ask("POST", path, body, **given)

    def delete(self, path: str, **given: Any) -> Answer:  # noqa: ANN401
        """DELETE."""
        return self.ask("DELETE", path, **given)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        version: str = VERSION,
        principal: Principal | None = None,
        headers: Mapping[str, str] | None = None,
        **query: str,
    ) -> Answer:
        """One request, with a token of `principal`'s; `version=""` sends none."""
        whole = path.removeprefix("/") if path.startswith("//") else f"{SUBSCRIPTION}{path}"
        split = urlsplit(whole)
        given = {**({"api-version": version} if version else {}), **query}
        token = self.tokens.access(principal or self.principal)
        return self.send(
            method,
            split.path,
            "&".join(part for part in (split.query, urlencode(given)) if part),
            b"" if body is None else json.dumps(body).encode(),
            {"authorization": f"Bearer {token}", **(headers or {})},
        )

    def send(
        self, method: str, path: str, query: str, body: bytes, headers: Mapping[str, str]
    ) -> Answer:
        """One request as it stands."""
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in {"host": "127.0.0.1:8171", **headers}.items()
            ],
            "scheme": "https",
            "server": ("127.0.0.1", 8171),
            "client": ("127.0.0.1", 4711),
            "http_version": "1.1",
            "root_path": "",
        }
        return self._runner.run(self._send(scope, body))

    async def _send(self, scope: dict[str, Any], body: bytes) -> Answer:
        heard: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:  # noqa: ANN401
            heard.append(message)

        await self.app(scope, receive, send)
        await self.fleet.settled()
        start = heard[0]
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], headers, b"".join(m.get("body", b"") for m in heard[1:]))

    def follow(self, url: str) -> Answer:
        """Ask at a URL that an answer gave."""
        split = urlsplit(url)
        assert split.netloc == "127.0.0.1:8171"
        return self.send(
            "GET",
            split.path,
            split.query,
            b"",
            {"authorization": f"Bearer {self.tokens.access(self.principal)}"},
        )

    def ended(self, accepted: Answer) -> Any:  # noqa: ANN401  (a status document)
        """The status of an operation that was accepted."""
        assert accepted.status in {200, 201, 202}, accepted.body
        return self.follow(accepted.headers["azure-asyncoperation"]).json

    # --- The usual fleet ---

    def group(self, name: str = "rg") -> str:
        """A resource group; its path."""
        assert self.put(f"/resourceGroups/{name}", {"location": "local"}).status in {200, 201}
        return f"/resourceGroups/{name}"

    def demo(self, text: str = "") -> None:
        """The fleet of a fleet file, or of the demo."""
        file = fleetfile.read(text) if text else fleetfile.demo()
        self._runner.run(fleetfile.apply(changed(file, cloud=Cloud()), self.fleet.submit))


__all__ = ["OPERATOR", "SUBSCRIPTION", "VERSION", "Answer", "Control"]
