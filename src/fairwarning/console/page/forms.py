"""What a form sends, and what comes of it."""

from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from starlette.requests import Request

from fairwarning.core.errors import Refused

_BODY_BYTES = 64 * 1024
_FIELDS = 2000  # a set has at most a thousand instances to tick


class FormFields:
    """The fields of a submitted form. A field that was left empty counts as not given."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def text(self, name: str, standing: str = "") -> str:
        """The field's text without blanks around it."""
        return next((value.strip() for key, value in self._pairs if key == name), "") or standing

    def all(self, name: str) -> list[str]:
        """The values of every field of this name: ticked boxes."""
        return [value.strip() for key, value in self._pairs if key == name and value.strip()]

    def number(self, name: str, what: str) -> float | None:
        """A number, or None where the field was left empty."""
        text = self.text(name)
        try:
            value = float(text) if text else None
        except ValueError:
            value = float("nan")
        if value is not None and not abs(value) < 10**12:
            raise Refused("BadNumber", f"{what} must be a number, not {text[:40]!r}")
        return value

    def whole(self, name: str, what: str) -> int | None:
        """A whole number, or None where the field was left empty."""
        value = self.number(name, what)
        if value is not None and not value.is_integer():
            raise Refused("BadNumber", f"{what} must be a whole number, not {value:g}")
        return None if value is None else int(value)

    def instances(self) -> list[int]:
        """The instances that were ticked."""
        given = self.all("instance")
        if not all(one.isdecimal() and one.isascii() for one in given):
            raise Refused("BadInstance", "an instance is a whole number; tick it in the list")
        return [int(one) for one in given]

    def given(self) -> dict[str, str]:
        """All fields, to be shown again."""
        return dict(self._pairs)


@dataclass(frozen=True)
class FormDone:
    """A form was carried out: what to say, and where to go."""

    notice: str
    to: str


@dataclass(frozen=True)
class FormRefused:
    """A form was refused: which, why, and what stood in it."""

    action: str
    message: str
    status: int = 400
    given: dict[str, str] = field(default_factory=dict)


async def read(request: Request) -> FormFields:
    """The fields of a form that was posted as browsers do by default."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refused("BadForm", "send a form as application/x-www-form-urlencoded")
    raw = b""
    async for part in request.stream():
        raw += part
        if len(raw) > _BODY_BYTES:
            raise Refused("BadForm", f"a form has at most {_BODY_BYTES} bytes")
    try:
        pairs = parse_qsl(
            raw.decode("utf-8"), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict"
        )
    except ValueError as error:
        raise Refused("BadForm", f"a form has at most {_FIELDS} fields, in UTF-8") from error
    return FormFields(pairs)


def inside(path: str, standing: str = "/") -> str:
    """A path of this page, for a redirect; anything else would lead away."""
    ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if ours else standing
