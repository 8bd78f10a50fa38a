"""The requests that resources of all types understand: PUT, PATCH, GET, DELETE, lists and actions.

A type may answer some of them in its own way (`ResourceType`).
"""

from functools import partial

from fairwarning.arm.http.azure_id import AzureId, ResourcePath
from fairwarning.arm.http.errors import ArmError, azure_error
from fairwarning.arm.http.routes import Handler
from fairwarning.arm.types import registered, stored
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.resource_type import ResourceTypes


def find_handler(context: ArmContext, method: str, path: ResourcePath) -> Handler:
    """Return the handler of a request to a resource, to a list of resources, or for an action."""
    method = "GET" if method == "HEAD" else method
    _check_places(context.types, path)
    if path.member:
        return _member_handler(context, method, path)
    kind = context.types.get(path.id.kind)
    if nested := context.types.nested(path.id.kind):
        known = registered.part_handlers(*nested)
    elif kind is None:
        known = stored.HANDLERS
    else:
        known = {
            "PUT": kind.put or partial(registered.put, kind),
            "GET": kind.get or partial(registered.get, kind),
            "DELETE": kind.remove or partial(registered.delete, kind),
        }
    if kind is None or kind.patched:
        known = {**known, "PATCH": known["PUT"]}
    if method not in known:
        raise azure_error("MethodNotAllowed", method=method, methods=", ".join(sorted(known)))
    return known[method]


def _check_places(types: ResourceTypes, path: ResourcePath) -> None:
    """Refuse a type that acts in a place where the service has no such resources."""
    around = [id_.kind for id_ in path.id.with_parents() if types.is_misplaced(id_)]
    listed = AzureId(group="any", kind=path.listed_kind, owner=path.id if path.id.kind else None)
    if "/" in path.member and types.is_misplaced(listed):
        around.append(path.member)
    if around:
        raise azure_error("InvalidResourceType/place", kind=around[0])


def _member_handler(context: ArmContext, method: str, path: ResourcePath) -> Handler:
    """Return the handler of an action or a view of a resource, or of a list."""
    owner, listed = context.types.get(path.id.kind), context.types.get(path.listed_kind)
    member = path.member.lower()
    if owner and (why := owner.refused.get(member)):
        raise azure_error("OperationNotAllowed/not offered", member=path.member, why=why)
    if method == "POST":
        if owner is None and path.id.kind:
            return partial(stored.act, path.member)
        if owner and (action := owner.actions.get(member)):
            return action
        text = f"The action '{path.member[:80]}' of '{path.id.kind}' does not exist."
        raise ArmError("InvalidResourceType", text, 404)
    is_action = bool(owner and member in owner.actions)
    if method != "GET" or is_action:
        methods = "POST" if is_action else "GET"
        if owner is None and path.id.kind:  # only stored: it takes any action
            methods = "GET, POST"
        raise azure_error("MethodNotAllowed", method=method, methods=methods)
    if owner and (view := owner.views.get(member)):
        return view
    if nested := context.types.nested(path.listed_kind):
        return partial(registered.list_parts, *nested)
    if listed:
        return listed.list or partial(registered.list_rows, listed)
    return partial(stored.list_kind, path)
