"""Keeps connection URLs and passwords out of texts, also those typed in the wrong place (IS3)."""

import re

_CONNECTION_STRING = re.compile(
    r"""[\s"']*[a-z][a-z0-9+.-]+:/|.*://|.*\bpassword\s*=""", re.IGNORECASE | re.DOTALL
)
_PASSWORD = re.compile(r"://[^/?#]*:[^@]*@|[?&]password=", re.IGNORECASE)
_SECRETS = re.compile(
    # All of the URL, because the password may be in any part of it, but not a bare postgresql://.
    r"""(?P<url>\bpostgres(?:ql)?:/+)[^\s'"`./][^\s'"`]*"""
    r"""|(?P<login>\b[a-z][a-z0-9+.-]+:/+)[^\s'"`]*@"""
    r"""|(?P<option>\bpassword\s*=\s*)('[^']*'|[^\s'"`&]+)""",
    re.IGNORECASE,
)


def is_connection_string(text: str) -> bool:
    """Whether it is a URL or a connection string of any kind, even a malformed one.

    Used as a folder, it would put its password into a directory entry and into error texts.
    """
    return bool(_CONNECTION_STRING.match(text))


def has_password(url: str) -> bool:
    """Whether the URL contains a password."""
    return bool(_PASSWORD.search(url))


def without_secrets(text: str) -> str:
    """Return the text with `***` instead of what could be a secret."""
    return _SECRETS.sub(_replacement, text)


def _replacement(match: re.Match[str]) -> str:
    if match["login"]:
        return f"{match['login']}***@"
    return f"{match['url'] or match['option']}***"
