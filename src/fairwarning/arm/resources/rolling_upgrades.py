"""Rolling upgrades of scale sets: rollouts that bring the instances to the set's model (E7, T3)."""

from functools import partial

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, accepted, json_response
from fairwarning.arm.http.routes import COMPUTE, Route
from fairwarning.arm.resources import documents, rolling_policy
from fairwarning.core.commands import AbortRollout, StartUpgrade
from fairwarning.core.model import (
    ImpactKind,
    Lane,
    Operation,
    OperationStatus,
    Ref,
    Resource,
    Rollout,
    RolloutStatus,
    ScaleSet,
)
from fairwarning.core.rollout import lane_id
from fairwarning.core.times import iso
from fairwarning.service.resources import SCALE_SET

_UPGRADE = f"{SCALE_SET}/rollingUpgrades"
_CODES = {
    RolloutStatus.RUNNING: "RollingForward",
    RolloutStatus.PAUSED: "Faulted",
    RolloutStatus.ABORTED: "Cancelled",
    RolloutStatus.DONE: "Completed",
}
_STATUSES = {
    RolloutStatus.PAUSED: OperationStatus.FAILED,
    RolloutStatus.ABORTED: OperationStatus.CANCELED,
    RolloutStatus.DONE: OperationStatus.SUCCEEDED,
}


def start_command(
    scale_set: ScaleSet, body: Body, actor: str, kind: ImpactKind = ImpactKind.REBOOT
) -> StartUpgrade:
    """Return the command that upgrades the instances of a set by its rolling upgrade policy."""
    policy = rolling_policy.parse(body)
    return StartUpgrade(
        set=scale_set.id,
        rollout=f"{scale_set.id}:upgrade:{new_operation()}",
        kind=kind,
        batch=policy.lanes(scale_set),
        halt_percent=policy.unhealthy_upgraded_percent,
        pause_seconds=policy.pause_seconds,
        actor=actor,
    )


async def check_none_running(context: ArmContext, scale_set: ScaleSet) -> None:
    """Refuse to change the model of a set, or to upgrade it, while an upgrade is under way."""
    rollout = await _latest(context, scale_set)
    if rollout and rollout.ended_at is None:
        text = (
            f"A rolling upgrade of the scale set '{scale_set.name}' is in progress; wait for its "
            "end, or cancel it with rollingUpgrades/cancel."
        )
        raise ArmError("OperationNotAllowed", text, 409)


def as_operation(rollout: Rollout) -> Operation:
    """Return the operation that a client polls until a rolling upgrade has ended."""
    ended = _STATUSES.get(rollout.status, OperationStatus.RUNNING)
    finished = rollout.ended_at is not None or rollout.status is RolloutStatus.PAUSED
    return Operation(
        id=rollout.id,
        kind=Rollout.__name__,
        actor=rollout.actor,
        accepted_at=rollout.started_at,
        status=ended if finished else OperationStatus.RUNNING,
        ended_at=rollout.ended_at,
        error=rollout.why,
    )


# --- Requests -------------------------------------------------------------------------------------


async def _start(kind: ImpactKind, context: ArmContext, request: ArmRequest) -> Response:
    """Start a rolling upgrade, and return 202; clients poll until it has ended."""
    resource, scale_set = await _set(context, request)
    await check_none_running(context, scale_set)
    command = start_command(scale_set, documents.stored_body(resource), request.actor, kind)
    await context.fleet.submit(command)
    rollout = await context.fleet.reader.read(Rollout, command.rollout)
    if rollout is None:  # no instance is running
        return Response(b"", 200)
    return accepted(request, as_operation(rollout), context.cloud.location)


async def _cancel(context: ArmContext, request: ArmRequest) -> Response:
    """Cancel a rolling upgrade: its Scheduled events are withdrawn, Started ones finish."""
    _, scale_set = await _set(context, request)
    rollout = await _latest(context, scale_set)
    if rollout is None or rollout.status not in {RolloutStatus.RUNNING, RolloutStatus.PAUSED}:
        text = f"No rolling upgrade of the scale set '{scale_set.name}' is in progress."
        raise ArmError("OperationNotAllowed", text, 409)
    await context.fleet.submit(AbortRollout(rollout=rollout.id, actor=request.actor))
    return Response(b"", 200)


async def _get_latest(context: ArmContext, request: ArmRequest) -> Response:
    resource, scale_set = await _set(context, request)
    rollout = await _latest(context, scale_set)
    if rollout is None:
        text = f"The scale set '{resource.name}' has had no rolling upgrade."
        raise ArmError("ResourceNotFound", text, 404)
    body = documents.stored_body(resource)
    properties: Body = {
        "policy": rolling_policy.parse(body).document(),
        "runningStatus": _running_status(rollout),
        "progress": await _progress(context, rollout),
    }
    if rollout.why:
        properties["error"] = {"code": "RollingUpgradeFaulted", "message": rollout.why}
    document = {
        "name": "latest",
        "id": context.arm_id(_UPGRADE, resource.group, f"{resource.name}/latest"),
        "type": _UPGRADE,
        "location": body.get("location", context.cloud.location),
        "properties": properties,
    }
    return json_response(document)


def _running_status(rollout: Rollout) -> Body:
    canceled = rollout.status is RolloutStatus.ABORTED
    return {
        "code": _CODES[rollout.status],
        "startTime": iso(int(rollout.started_at)),
        "lastAction": "Cancel" if canceled else "Start",
        "lastActionTime": iso(int(rollout.ended_at or rollout.started_at)),
    }


async def _progress(context: ArmContext, rollout: Rollout) -> Body:
    refs: list[Ref] = [(Lane, lane_id(rollout.id, number)) for number in rollout.running]
    lanes = (await context.fleet.reader.read_all(refs)).values()
    steps = [
        lane.steps[lane.position] for lane in lanes if isinstance(lane, Lane) and lane.in_progress
    ]
    in_progress = sum(len(names) for step in steps for names in step.values())
    ended = rollout.done + rollout.failed + rollout.skipped
    return {
        "successfulInstanceCount": rollout.done,
        "failedInstanceCount": rollout.failed,
        "inProgressInstanceCount": in_progress,
        "pendingInstanceCount": max(0, rollout.machines - ended - in_progress),
    }


async def _set(context: ArmContext, request: ArmRequest) -> tuple[Resource, ScaleSet]:
    resource = await context.get(SCALE_SET, request.group, request.name)
    return resource, await context.scale_set(resource)


async def _latest(context: ArmContext, scale_set: ScaleSet) -> Rollout | None:
    return await context.fleet.reader.read(Rollout, scale_set.rollout)


_SET = f"{COMPUTE}/virtualMachineScaleSets/{{name}}"
ROUTES = (
    Route("POST", f"{_SET}/osRollingUpgrade", partial(_start, ImpactKind.REBOOT)),
    # An extension is replaced while the instance runs; the mildest impact comes closest.
    Route("POST", f"{_SET}/extensionRollingUpgrade", partial(_start, ImpactKind.FREEZE)),
    Route("POST", f"{_SET}/rollingUpgrades/cancel", _cancel),
    Route("GET", f"{_SET}/rollingUpgrades/latest", _get_latest),
)
