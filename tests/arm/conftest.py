"""What most tests of the control plane begin with."""

from collections.abc import Iterator

import pytest

from tests.fixtures.arm import ArmHarness


@pytest.fixture
def arm() -> Iterator[ArmHarness]:
    """A control plane with the empty group `rg`."""
    with ArmHarness() as arm:
        arm.group()
        yield arm
