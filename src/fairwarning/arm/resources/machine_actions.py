"""Actions that change nothing here: reapply, run command, and keys for SSH (C1, C2)."""

import asyncio
from collections.abc import Mapping

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, accepted, json_response
from fairwarning.arm.http.routes import ALL_COMPUTE, COMPUTE, Route
from fairwarning.arm.resources import documents, network, targets, views
from fairwarning.arm.resources.documents import choice, typed_value
from fairwarning.arm.resources.machine_items import NOT_RUN
from fairwarning.arm.resources.targets import ActionTarget
from fairwarning.arm.resources.writing import ResourceWrite
from fairwarning.core.commands import Write

_KEY = "Microsoft.Compute/sshPublicKeys"
_KEY_TYPES = {"RSA": "RSA", "Ed25519": "Ed25519"}
_COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "RunShellScript": ("Linux", "Executes a Linux shell script", "echo hello"),
    "RunPowerShellScript": ("Windows", "Executes a PowerShell script", "Write-Output hello"),
}
"""The run commands that take a script: system, description and an example script."""


async def _target(context: ArmContext, request: ArmRequest) -> ActionTarget:
    if "set" in request.params:
        owner, number = request.params["set"], request.params["number"]
        return await targets.find_instance(context, request.group, owner, number)
    return await targets.find_machine(context, request.group, request.name)


async def _reapply(context: ArmContext, request: ArmRequest) -> Response:
    """Accept the request: the state of a machine is always the one that was written."""
    target = await _target(context, request)
    resource = target.resource
    if resource is None:  # an instance of a Flexible set, which no client has written
        return Response(b"", 200)
    command = Write(
        resource=resource.id,
        body=resource.body,
        group=resource.group,
        name=resource.name,
        at=resource.version,
        scope=resource.scope,
        machine=resource.machine,
        operation=new_operation(),
        actor=request.actor,
    )
    return accepted(request, await context.fleet.submit(command), context.cloud.location)


# --- Run commands ---------------------------------------------------------------------------------


async def _run(context: ArmContext, request: ArmRequest) -> Response:
    """Say that the command was not run."""
    await _target(context, request)
    body = await request.body()
    command = typed_value(body, "commandId", str)
    if not command:
        raise documents.invalid_value("commandId", "", f"one of {', '.join(_COMMANDS)}")
    if command.lower() not in map(str.lower, _COMMANDS):
        raise documents.invalid_value("commandId", command, f"one of {', '.join(_COMMANDS)}")
    status = views.status("ProvisioningState/succeeded", "Provisioning succeeded")
    text = f"Enable succeeded: \n[stdout]\n\n[stderr]\n{NOT_RUN}\n"
    return json_response({"value": [{**status, "message": text}]})


async def _list_commands(_context: ArmContext, _request: ArmRequest) -> Response:
    return json_response({"value": [_command(name) for name in _COMMANDS]})


async def _get_command(_context: ArmContext, request: ArmRequest) -> Response:
    for name in _COMMANDS:
        if name.lower() == request.name.lower():
            return json_response({**_command(name), "script": [_COMMANDS[name][2]]})
    text = f"The run command '{request.name[:80]}' was not found; use {', '.join(_COMMANDS)}."
    raise ArmError("NotFound", text, 404)


def _command(name: str) -> Body:
    system, text, _ = _COMMANDS[name]
    return {
        "$schema": "http://schema.management.azure.com/schemas/2016-11-17/runcommands.json",
        "id": name,
        "osType": system,
        "label": text,
        "description": text,
    }


# --- SSH keys -------------------------------------------------------------------------------------


async def _generate_key_pair(context: ArmContext, request: ArmRequest) -> Response:
    """Create a key pair and store its public key; the private key is only in this response."""
    resource = await context.get(_KEY, request.group, request.name)
    kind = choice(await request.body(), "encryptionType", _KEY_TYPES, "RSA")
    from fairwarning.arm.resources import ssh_keys  # noqa: PLC0415  (slow to import, rarely needed)

    pair = await asyncio.to_thread(ssh_keys.generate, kind)
    write = ResourceWrite(
        group=request.group,
        name=resource.name,
        body={"properties": {"publicKey": pair.public}},
        version=request.version,
        actor=request.actor,
        must_exist=True,
    )
    await network.PUTS[_KEY.lower()](context, write)
    path = context.arm_id(_KEY, resource.group, resource.name)
    return json_response({"id": path, "publicKey": pair.public, "privateKey": pair.private})


_VM = f"{COMPUTE}/virtualMachines/{{name}}"
_INSTANCE = f"{COMPUTE}/virtualMachineScaleSets/{{set}}/virtualMachines/{{number}}"
_RUN_COMMANDS = f"{ALL_COMPUTE}/locations/{{location}}/runCommands"
ROUTES = (
    Route("POST", f"{_VM}/reapply", _reapply),
    Route("POST", f"{_VM}/runCommand", _run),
    Route("POST", f"{_INSTANCE}/runCommand", _run),
    Route("GET", _RUN_COMMANDS, _list_commands),
    Route("GET", f"{_RUN_COMMANDS}/{{name}}", _get_command),
    Route("POST", f"{COMPUTE}/sshPublicKeys/{{name}}/generateKeyPair", _generate_key_pair),
)
