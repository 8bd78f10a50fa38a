"""Foreign text in a form that is safe to store, to log and to show."""


def printable(text: str, most: int | None = None, *, keep: str = "") -> str:
    r"""Escape what is not printable: `\x00`, `\x1b`, `\u202e`; return at most so many characters.

    This covers control characters, escape sequences, bidirectional marks and lone surrogates.
    """
    if not text.isprintable():
        text = "".join(
            char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
            for char in text[:most]
        )
    return text[:most]
