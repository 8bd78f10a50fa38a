"""Errors as Azure Resource Manager reports them: a code that scripts compare, and a message."""

import re
from http import HTTPStatus

from fairwarning.arm import catalogue
from fairwarning.core.errors import FairwarningError, Refused

_ID = re.compile(r"'(?:(?:as|cs|microsoft\.[^'\s:]+):)?[^'\s:]*:(?P<name>[^'\s:/]+)(?:/[^'\s:]*)?'")
"""The id of a resource, scale set or scope: kind or prefix, group, name and placement group."""
_MESSAGE_CHARACTERS = 900  # a message may quote what the client sent
_STATUSES = {"UnknownInstance": 400}  # the request body names the instance, so the body is invalid


class ArmError(Refused):
    """The request is invalid; code and message follow Azure's."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(code, message)
        self.status = status


def azure_error(key: str, /, **values: object) -> ArmError:
    """Return an error whose status and text `catalogue/errors.json` has.

    The key is Azure's code; if it has several texts, a slash and a word follow.
    """
    status, text = catalogue.read("errors")[key]
    return ArmError(key.partition("/")[0], text.format_map(values), status)


def invalid_value(path: str, value: object, allowed: str) -> ArmError:
    """The error for a value that is not allowed at a path."""
    quoted = str(value)[:60]
    message = f"The value '{quoted}' of parameter '{path}' is invalid: it must be {allowed}."
    return ArmError("InvalidParameter", message)


def resource_not_found(kind: str, name: str, group: str) -> ArmError:
    """The error for a resource that does not exist."""
    return azure_error("ResourceNotFound", kind=kind, name=name, group=group)


def from_error(error: FairwarningError) -> tuple[int, dict[str, object]]:
    """Return the status and the body of an error response."""
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:  # our fault: show no paths or internals
        text = "the service cannot handle this request now; its log has the cause. Try again later"
        return 503, error_body("ServiceUnavailable", text)
    code = error.code
    if not isinstance(error, ArmError):
        code = catalogue.read("codes").get(code, code)
    return _STATUSES.get(error.code, error.status), error_body(code, public_message(error))


def public_message(error: FairwarningError) -> str:
    """Return the message of an error with names of resources instead of the ids of the store."""
    return error.message if isinstance(error, ArmError) else with_names(error.message)


def with_names(text: str) -> str:
    """Replace the quoted ids of the core by the names that users gave: 'rg:web/0' is 'web'."""
    return _ID.sub(lambda match: f"'{match['name']}'", text)


def error_body(code: str, message: str) -> dict[str, object]:
    """Return the body of an error response, with the message truncated."""
    if len(message) > _MESSAGE_CHARACTERS:
        message = f"{message[:_MESSAGE_CHARACTERS]}..."
    return {"error": {"code": code, "message": message}}
