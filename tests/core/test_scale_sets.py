"""Which instances scale-in deletes (T4), and the placement groups of a set."""

import pytest

from fairwarning.core import limits
from fairwarning.core.choosing import choose
from fairwarning.core.commands import CreateSet
from fairwarning.core.growing import all_groups, groups_of_new_set
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


GROUPS = limits.SET_INSTANCES // limits.PLACEMENT_GROUP_MACHINES


@pytest.mark.parametrize("scope", ["vm", "av/set", "av/", "av/1x"])
def test_a_scope_that_is_no_group_is_alone(scope: str) -> None:
    """It has no number after its last slash."""
    assert all_groups(scope) == [scope]


@pytest.mark.parametrize("scope", ["web/0", "web/7"])
def test_the_groups_of_a_set(scope: str) -> None:
    """Every group that the largest set has (M14)."""
    assert all_groups(scope) == [f"web/{number}" for number in range(GROUPS)]


@pytest.mark.parametrize(
    ("capacity", "groups"), [(0, 0), (1, 1), (99, 1), (100, 1), (101, 2), (1000, 10)]
)
def test_the_groups_of_a_new_set(capacity: int, groups: int) -> None:
    """As many as its instances fill."""
    command = CreateSet(set="web", capacity=capacity)
    assert groups_of_new_set(command) == [f"web/{number}" for number in range(groups)]
