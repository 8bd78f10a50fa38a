"""Answers to list requests, with the OData options of Azure's lists (C6), and their pages."""

import base64
import binascii
from collections.abc import Collection, Mapping, Sequence

from starlette.responses import Response

from fairwarning.arm.http.errors import ArmError, azure_error, invalid_value
from fairwarning.arm.http.odata import RESOURCE_FIELDS, Field, parse_filter
from fairwarning.arm.http.request import ArmRequest, Body, json_response, query_pairs

_TOP_MAX = 10_000


def list_response(
    request: ArmRequest,
    documents: Sequence[Body],
    token: str = "",
    *,
    fields: Mapping[str, Field] = RESOURCE_FIELDS,
) -> Response:
    """Return a page of a list: the documents that `$filter` matches, at most `$top` in all pages.

    `token` is the $skiptoken of the next page. A page may be short, or empty, and have a nextLink.
    """
    matches = parse_filter(request.query("$filter"), fields)
    value = [document for document in documents if matches(document)]
    top = parse_top(request)
    if top is None:
        return json_response({"value": value, **next_link(request, token)})
    value = value[:top]
    token = token if len(value) < top else ""
    link = next_link(request, token, {"$top": str(top - len(value))})
    return json_response({"value": value, **link})


def parse_top(request: ArmRequest) -> int | None:
    """Return the number of `$top`; None without one."""
    text = request.query("$top")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= _TOP_MAX:
        raise invalid_value("$top", text, f"a whole number from 1 to {_TOP_MAX}")
    return int(text)


def parse_expand(request: ArmRequest, allowed: Collection[str]) -> frozenset[str]:
    """Return the words of `$expand`, in the case of `allowed`; refuse others."""
    text = request.query("$expand")
    if not text:
        return frozenset()
    canonical = {word.lower(): word for word in allowed}
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    if not all(word in canonical for word in words):
        raise invalid_value("$expand", text, f"one or more of {', '.join(allowed)}")
    return frozenset(canonical[word] for word in words)


def refuse_ignored(request: ArmRequest) -> None:
    """Refuse OData options that the handler has not read: ignored, they would change the answer."""
    options = [name for name, _ in query_pairs(request.http) if name.startswith("$")]
    ignored = [name for name in options if name.lower() not in request.options_read]
    if ignored:
        supported = ", ".join(request.options_read) or "none"
        raise azure_error("UnsupportedQueryOption", ignored=ignored[0][:40], supported=supported)


def next_link(
    request: ArmRequest, token: str, changes: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the `nextLink` member of a listing; nothing on the last page.

    `changes` has query parameters that differ on the next page.
    """
    if not token:
        return {}
    query = {
        key: value
        for key, value in query_pairs(request.http)
        if key.lower() not in {"$skiptoken", "api-version"}
    }
    query |= {**(changes or {}), "$skiptoken": token}
    return {"nextLink": request.link(request.path, query)}


def encode_skip_token(last: str) -> str:
    """Return the $skiptoken for the page after this resource id."""
    return base64.urlsafe_b64encode(last.encode()).decode()


def decode_skip_token(token: str) -> str:
    """Return the resource id before the page; "" for the first page."""
    try:
        return base64.b64decode(token.encode("ascii"), b"-_", validate=True).decode()
    except (UnicodeError, binascii.Error) as error:
        raise invalid_skip_token() from error


def invalid_skip_token() -> ArmError:
    """The error for a $skiptoken that this service did not issue for this listing."""
    return azure_error("InvalidSkipToken")
