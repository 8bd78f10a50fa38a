"""Requests of clients that take an endpoint for their HTTP proxy: the target is a whole URL.

A program that runs without a network of its own reaches its endpoint like this (O12): the client
asks its proxy for http://169.254.169.254. Nothing is ever forwarded to another host.
"""

import re
from typing import Final

from fairwarning.metadata.answers import Refusal, RequestRefused

OTHER_HOST: Final = Refusal(
    403,
    "proxy",
    "Forbidden. This proxy answers for http://169.254.169.254 only; to reach another host"
    " directly, add it to no_proxy before you start `fairwarning exec`.",
)
_URL = re.compile(rb"(?i:http)://169\.254\.169\.254(?::80)?(?P<target>[/?][!-~]*)?")


def origin_form(target: bytes) -> bytes:
    """Return path and query of a target; raise `RequestRefused` if it names another host."""
    if target.startswith(b"/"):
        return target
    match = _URL.fullmatch(target)
    if match is None:
        raise RequestRefused(OTHER_HOST)
    path = match["target"] or b"/"
    return path if path.startswith(b"/") else b"/" + path
