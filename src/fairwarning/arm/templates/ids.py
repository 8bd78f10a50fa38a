"""Resource ids in templates, and the functions that compose them."""

import re

from fairwarning.arm.templates.calls import UNLIMITED, Functions, TemplateFunction
from fairwarning.arm.templates.values import TemplateError

_PARTS = ("string or int",)  # a name may be a number
_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def group_path(subscription: str, group: str) -> str:
    """Return the id of a resource group."""
    return f"/subscriptions/{subscription}/resourceGroups/{group}"


def resource_id(scope: str, kind: str, name: str) -> str:
    """Return an id below a scope, in which the parts of the type and of the name alternate.

    Parts of a name may be empty, as in a variable that is not used.
    """
    namespace, *kinds = kind.strip("/").split("/")  # Azure accepts a slash at the end
    names = name.split("/")
    if not kinds or len(kinds) != len(names) or not all((namespace, *kinds)):
        raise TemplateError(
            "a name must have a part for each part of the type after the namespace: "
            "Microsoft.Network/loadBalancers/inboundNatRules needs two, such as lb/rule"
        )
    pairs = "/".join(f"{kind}/{name}" for kind, name in zip(kinds, names, strict=True))
    return f"{scope}/providers/{namespace}/{pairs}"


def complete_id(scope: str, text: str) -> str | None:
    """Return the id below a scope for the end of an id, `Microsoft.Network/virtualNetworks/net`."""
    namespace, *rest = text.strip("/").split("/")
    if "." not in namespace or not rest or len(rest) % 2:
        return None
    return resource_id(scope, "/".join([namespace, *rest[::2]]), "/".join(rest[1::2]))


def id_functions(subscription: str, group: str) -> Functions:
    """Return the functions that compose ids, for a deployment to this group."""

    def in_group(*parts: str | int) -> str:
        """Return an id: [subscription,] [group,] type and names are the arguments."""
        prefix, kind, names = _split(parts, 3)
        own, own_group = subscription, group
        if len(prefix) == 1 and _GUID.fullmatch(prefix[0]):
            own = prefix[0]
        elif prefix:
            own, own_group = (own, *prefix)[-2:]
        return resource_id(group_path(own, own_group), kind, names)

    def in_subscription(*parts: str | int) -> str:
        prefix, kind, names = _split(parts, 2)
        return resource_id(f"/subscriptions/{(subscription, *prefix)[-1]}", kind, names)

    def of_extension(scope: str | int, *parts: str | int) -> str:
        _, kind, names = _split(parts, 1)
        return resource_id(str(scope).rstrip("/"), kind, names)

    def in_tenant(*parts: str | int) -> str:
        _, kind, names = _split(parts, 1)
        return resource_id("", kind, names)

    return {
        "extensionresourceid": TemplateFunction(of_extension, _PARTS, 3, UNLIMITED),
        "resourceid": TemplateFunction(in_group, _PARTS, 2, UNLIMITED),
        "subscriptionresourceid": TemplateFunction(in_subscription, _PARTS, 2, UNLIMITED),
        "tenantresourceid": TemplateFunction(in_tenant, _PARTS, 2, UNLIMITED),
    }


def _split(arguments: tuple[str | int, ...], most: int) -> tuple[tuple[str, ...], str, str]:
    """Return the arguments before the type, the type, and the names joined by slashes."""
    parts = tuple(map(str, arguments))
    number = next((n for n, part in enumerate(parts[:most]) if "/" in part), 0)
    names = parts[number + 1 :]
    if any("/" in name for name in names):
        raise TemplateError("takes each part of a name as an argument, without a '/'")
    return parts[:number], parts[number], "/".join(names)
