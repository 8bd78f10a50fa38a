"""Placement groups of a set, by the name of one."""

import pytest

from fairwarning.core import limits
from fairwarning.core.commands import CreateSet
from fairwarning.core.growing import all_groups, groups_of_new_set

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
