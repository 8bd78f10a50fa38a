"""One tenant attacks every port; the service and the other tenant do not notice (IB4).

`python -m tests.hostile MINUTES [SEED]` goes on with other seeds.
"""

import pytest

from tests.campaigns import split
from tests.hostile.two_tenants import Campaign

SEEDS = range(1, 21)


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    """One filled fleet for all seeds."""
    return Campaign()


@pytest.mark.spec("X7")
@pytest.mark.parametrize("seed", split(SEEDS, 1))
def test_an_attack_by_a_tenant(campaign: Campaign, seed: int) -> None:
    """The other tenant reads what it reads alone: documents, resources, results of operations."""
    campaign.attack_as_tenant(seed)


@pytest.mark.spec("X7")
@pytest.mark.parametrize("seed", split(SEEDS, 1))
def test_an_attack_by_an_operator(campaign: Campaign, seed: int) -> None:
    """No answer is an error of the service's own, and every part of it still works."""
    campaign.attack_as_operator(seed)
