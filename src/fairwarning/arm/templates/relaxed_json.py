"""JSON as people write templates, and as the Azure CLI sends them with a deployment.

It allows comments, keys without quotes, single quotes, trailing commas, and line breaks in strings.
One pass over the text rewrites it as strict JSON with the same lines, which Python's decoder reads.
"""

import json
import re
from typing import Any, NoReturn

from fairwarning.arm.turns import pause
from fairwarning.core.errors import Refused

_SPACE = r"(?:\s|//[^\r\n]*+|/\*.*?\*/)*+"
_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*+"?)'  # without its end, it takes the rest: each is read once
    r"|(?P<single>'(?:[^'\\]|\\.)*+')"
    r"|(?P<open>'.*+|/\*(?!.*?\*/).*+)"
    r"|(?P<comment>//[^\r\n]*+|/\*.*?\*/)"
    rf"|(?P<key>(?:[^\W\d]|[$_])[\w$]*+)(?={_SPACE}:)"
    r"|(?P<word>[\w$]++)"
    rf"|(?P<comma>,)(?={_SPACE}[}}\]])",
    re.DOTALL,
)
_IN_SINGLE_QUOTES = re.compile(r"\\.|\"", re.DOTALL)


def decode(raw: bytes) -> Any:  # noqa: ANN401  (any JSON)
    """Return the value of a text; raise with the line of an error."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refused("InvalidRequestContent", "The request content is not UTF-8.") from None
    try:
        value = json.loads(_TOKEN.sub(_strict, text), strict=False, parse_constant=_refuse_constant)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise _refusal(f"line {error.lineno}: {error.msg}") from None
    except RecursionError:
        raise _refusal("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise _refusal("a string has an unpaired surrogate") from None
    except ValueError:
        raise _refusal("a number is not JSON, or has too many digits") from None
    return value


def _strict(match: re.Match[str]) -> str:
    """Return a token as strict JSON has it, with as many lines."""
    pause()
    token = match[0]
    match match.lastgroup:
        case "single":
            return f'"{_IN_SINGLE_QUOTES.sub(_requote, token[1:-1])}"'
        case "comment":
            return re.sub(r"[^\n]", " ", token)
        case "key":
            return f'"{token}"'
        case "comma":
            return " "
    return token


def _requote(match: re.Match[str]) -> str:
    return {"\\'": "'", '"': '\\"'}.get(match[0], match[0])


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(word)  # NaN and Infinity


def _refusal(problem: str) -> Refused:
    text = f"The request content was invalid and could not be deserialized: {problem}."
    return Refused("InvalidRequestContent", text)
