"""Which instances scale-in deletes (T4)."""

import pytest

from fairwarning.core.choosing import choose
from fairwarning.core.model import Machine, ScaleInRule

Places = dict[tuple[str, int], list[int]]
"""The ids of instances, by zone and fault domain."""


@pytest.mark.spec("T4")
@pytest.mark.parametrize(
    ("places", "leaving"),
    [
        ({("1", 0): [0, 1, 5, 6], ("2", 0): [2, 3, 4]}, [6, 5]),
        ({("1", 0): [0, 1, 3, 4], ("2", 0): [2, 5, 6]}, [4, 6, 3]),
        ({("", 0): [0, 1, 5, 6], ("", 1): [2, 3, 4]}, [6, 5]),
        ({("", 0): [0, 1, 3, 4], ("", 1): [2, 5, 6]}, [4, 6, 3]),
        ({("1", 0): [0], ("1", 1): [1], ("2", 0): [2, 3, 4]}, [4, 3, 1]),
        ({("1", 0): [0, 1], ("1", 1): [2], ("2", 0): [3, 4]}, [1, 4, 2]),
    ],
)
def test_balanced_scale_in(places: Places, leaving: list[int]) -> None:
    """The highest id of the fullest zone, and there of the fullest fault domain, repeatedly."""
    picks = [
        ("web/0", Machine(name=str(number), instance=number, zone=zone, fault_domain=domain))
        for (zone, domain), ids in places.items()
        for number in ids
    ]
    chosen = choose(ScaleInRule.DEFAULT, picks, len(leaving), picks)
    assert [machine.instance for _, machine in chosen] == leaving
