"""Functions of strings."""

import re
from base64 import b32encode, b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from hashlib import sha256
from urllib.parse import quote, unquote, urljoin
from uuid import UUID, uuid5

from fairwarning.arm.templates.evaluation import UNLIMITED, Functions, TemplateFunction
from fairwarning.arm.templates.values import TemplateError, Value, kind_of, text_of

TEXT_CHARACTERS = 1_000_000  # what a call may write or search; Azure's limit is far lower
_GUIDS = UUID("11fb06fb-712d-4ddd-98c7-e71bbd588830")  # Azure's own namespace for guid()
_SCALAR = "string or int or bool"


def concat(*parts: Value) -> Value:
    """Join arrays into an array, or other values into a string."""
    if all(isinstance(part, list) for part in parts):
        return [element for part in parts for element in part]
    if any(isinstance(part, list) for part in parts):
        raise TemplateError("takes either only arrays or no arrays")
    return "".join(map(text_of, parts))


def _check_length(characters: int) -> None:
    if characters > TEXT_CHARACTERS:
        raise TemplateError(f"may not write more than {TEXT_CHARACTERS} characters")


def _format(pattern: str, *values: Value) -> str:
    """Return the pattern with values for {0}, {1}...; {{ and }} are literal braces."""
    pieces: list[str] = []
    written = 0
    for piece in re.findall(r"\{\{|\}\}|\{[0-9]{1,3}(?::\w+)?\}|[{}]|[^{}]+", pattern):
        if piece in {"{", "}"}:
            raise TemplateError("takes {0}, {1} and so on in its pattern; double a literal brace")
        pieces.append(_fill(piece, values))
        written += len(pieces[-1])
        _check_length(written)
    return "".join(pieces)


def _fill(piece: str, values: tuple[Value, ...]) -> str:
    if piece in {"{{", "}}"}:
        return piece[0]
    if piece[0] != "{":
        return piece
    number, colon, form = piece[1:-1].partition(":")
    if int(number) >= len(values):
        raise TemplateError(f"has no value for {{{number}}}; the first value is {{0}}")
    value = values[int(number)]
    if not colon:
        return text_of(value)
    match = re.fullmatch(r"[dD](?P<digits>[0-9]{1,2})|(?P<zeros>0+)", form, re.ASCII)
    if match is None or kind_of(value) != "int":
        raise TemplateError("takes only the formats {0:D3} and {0:000}, and those for an int")
    digits = len(match["zeros"]) if match["zeros"] else int(match["digits"])
    return f"{'-' if value < 0 else ''}{str(abs(value)).zfill(digits)}"


def _unique_string(*texts: str) -> str:
    digest = sha256("\0".join(texts).encode(errors="surrogatepass")).digest()
    return b32encode(digest).decode().lower()[:13]


def _guid(*texts: str) -> str:
    return str(uuid5(_GUIDS, "-".join(texts).encode(errors="replace").decode()))


def _split(text: str, delimiters: Value) -> list[str]:
    separators = [delimiters] if isinstance(delimiters, str) else delimiters
    if not all(isinstance(separator, str) for separator in separators):
        raise TemplateError("takes strings as delimiters")
    if len(text) * sum(map(len, separators)) > TEXT_CHARACTERS:  # each is tried at each position
        raise TemplateError("has too long a string or too many delimiters")
    pattern = "|".join(re.escape(separator) for separator in separators if separator)
    return re.split(pattern, text) if pattern else [text]


def _join(items: list[Value], delimiter: str) -> str:
    texts = [text_of(item) for item in items]
    _check_length(sum(map(len, texts)) + len(delimiter) * len(texts))
    return delimiter.join(texts)


def _replace(text: str, old: str, new: str) -> str:
    if not old:  # Azure's own templates remove an empty token this way
        return text
    _check_length(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _substring(text: str, start: int, length: int | None = None) -> str:
    end = len(text) if length is None else start + length
    if not 0 <= start <= end <= len(text):
        raise TemplateError(
            f"takes a start and a length within the string, which has {len(text)} characters"
        )
    return text[start:end]


def _pad_left(value: Value, length: int, fill: str = " ") -> str:
    if len(fill) != 1 or length < 0:
        raise TemplateError("takes a length that is not negative, and one character to fill with")
    _check_length(length)
    return text_of(value).rjust(length, fill)


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")


def from_base64(text: str) -> str:
    """Return the text that a string in base64 encodes."""
    try:
        return b64decode(text.encode(), validate=True).decode()
    except (Base64Error, UnicodeError):
        raise TemplateError("takes a string in base64 that holds UTF-8") from None


def _uri(base: str, relative: str) -> str:
    try:
        return urljoin(base, relative)
    except ValueError:
        raise TemplateError("takes a valid URI as its argument 1") from None


def _ignoring_case(compare: Callable[[str, str], bool]) -> Callable[[str, str], bool]:
    return lambda text, part: compare(text.lower(), part.lower())


_TWO = ("string", "string")
TEXT: Functions = {
    "base64": TemplateFunction(lambda text: b64encode(_utf8(text)).decode(), ("string",)),
    "base64tostring": TemplateFunction(from_base64, ("string",)),
    "concat": TemplateFunction(concat, (f"{_SCALAR} or array",), 1, UNLIMITED),
    "endswith": TemplateFunction(_ignoring_case(str.endswith), _TWO),
    "format": TemplateFunction(_format, ("string", "any"), 1, UNLIMITED),
    "guid": TemplateFunction(_guid, ("string",), 1, UNLIMITED),
    "join": TemplateFunction(_join, ("array", "string")),
    "padleft": TemplateFunction(_pad_left, ("string or int", "int", "string"), 2, 3),
    "replace": TemplateFunction(_replace, ("string", "string", "string")),
    "split": TemplateFunction(_split, ("string", "string or array")),
    "startswith": TemplateFunction(_ignoring_case(str.startswith), _TWO),
    "string": TemplateFunction(text_of, ("any",)),
    "substring": TemplateFunction(_substring, ("string", "int", "int"), 2, 3),
    "tolower": TemplateFunction(str.lower, ("string",)),
    "toupper": TemplateFunction(str.upper, ("string",)),
    "trim": TemplateFunction(str.strip, ("string",)),
    "uniquestring": TemplateFunction(_unique_string, ("string",), 1, UNLIMITED),
    "uri": TemplateFunction(_uri, _TWO),
    "uricomponent": TemplateFunction(lambda text: quote(_utf8(text), safe="-_.~"), ("string",)),
    "uricomponenttostring": TemplateFunction(unquote, ("string",)),
}
