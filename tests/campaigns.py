"""Two tiers of tests: `make test` runs the first cases of a campaign, `make test-all` the rest."""

from collections.abc import Iterable
from typing import Any

import pytest


def split(cases: Iterable[Any], short: int) -> list[Any]:
    """Parameters of a test: the first `short` cases for `make test`, the others for `test-all`."""
    return [case if number < short else _campaign(case) for number, case in enumerate(cases)]


def _campaign(case: Any) -> Any:  # noqa: ANN401  (a parameter, or several)
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.campaign)


each_step = pytest.mark.parametrize("step", split([7, 1], 1))
"""A test of many requests sends each `step`-th: each seventh in `make test`, all in `test-all`."""
