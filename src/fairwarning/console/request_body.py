"""Reads the body of a request, up to a limit."""

from starlette.requests import ClientDisconnect, Request

from fairwarning.core.errors import Refused


async def read_body(request: Request, most: int, code: str) -> bytes:
    """Return a body of at most so many bytes; `code` is that of the refusal of another."""
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise Refused(code, f"the request is too large; send at most {most} bytes")
    except ClientDisconnect:
        raise Refused(code, "the client disconnected before the request was complete") from None
    return body
