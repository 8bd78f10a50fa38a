"""A receiver of webhooks that agrees to everything."""

from collections.abc import Iterator

import pytest

from tests.fixtures.receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Yield a running receiver."""
    with Receiver() as receiver:
        yield receiver
