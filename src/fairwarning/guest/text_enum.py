"""`StrEnum`, which the standard library has since Python 3.11; the guest side runs on 3.9 (G10)."""

import sys

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):
        """An enumeration whose members are their values, also when they are formatted."""

        __str__ = str.__str__
        __format__ = str.__format__


__all__ = ["StrEnum"]
