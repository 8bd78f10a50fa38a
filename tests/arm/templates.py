"""The template of `az vmss create`, and parts for other templates."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from fairwarning.arm.templates.template import Template
from tests.fixtures.arm import SUBSCRIPTION, VERSION, ArmHarness, default_version
from tests.fixtures.http import Response
from tests.fixtures.tokens import sign_token
from tests.fixtures.waiting import LIMIT_SECONDS

Json = dict[str, Any]


def resource(kind: str, name: str, *after: str, **more: object) -> Json:
    """Return a resource of a template."""
    return {
        "type": kind,
        "name": name,
        "apiVersion": default_version(f"/providers/{kind}/name"),
        "location": "local",
        "dependsOn": list(after),
        **more,
    }


def deployment(*resources: Json, **more: object) -> Json:
    """Return the body of a deployment of these resources."""
    return {"properties": {"mode": "Incremental", "template": {"resources": [*resources], **more}}}


def send_text(
    arm: ArmHarness, method: str, path: str, text: str, parameters: Json | None = None
) -> Response:
    """Send a template file as the Azure CLI does: its text, after a key without quotes."""
    body = json.dumps({"properties": {"mode": "Incremental", "parameters": parameters or {}}})
    headers = {"authorization": f"Bearer {sign_token(arm.tokens, arm.principal)}"}
    query, content = f"api-version={VERSION}", f"{body[:-2]}, template:{text}}}}}"
    return arm.send(method, f"{SUBSCRIPTION}{path}", query, content.encode(), headers)


def hold_deployments(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let the computation of every template wait for the event that is returned."""
    released, outputs = threading.Event(), Template.outputs

    def wait(*arguments: Any) -> Json:  # noqa: ANN401  (as the method)
        assert released.wait(LIMIT_SECONDS)
        return outputs(*arguments)

    monkeypatch.setattr(Template, "outputs", wait)
    return released


TEMPLATE: Json = json.loads(Path(__file__).with_name("vmss_create.json").read_text("utf-8"))
