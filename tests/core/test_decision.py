"""What decisions did."""

from fairwarning.core.decision import EVENT_ENDED, FactType, OperationProgress


def test_progress_is_added() -> None:
    """Counts are added; the first error stays, and when the first corrected impact began."""
    first = OperationProgress("op", 1, 2, 3, 4, "first", 5.0)
    second = OperationProgress("op", 10, 20, 30, 40, "second", 50.0)
    assert first.plus(second) == OperationProgress("op", 11, 22, 33, 44, "first", 5.0)
    assert OperationProgress("op").plus(second) == second


def test_what_corrects() -> None:
    """Only what takes back failures."""
    failures = (-1, 0, 1)
    assert [OperationProgress("op", failed=n).corrects for n in failures] == [True, False, False]


def test_what_ends_an_event() -> None:
    """The facts after which it is no longer in the document."""
    assert EVENT_ENDED == {FactType.CANCELLED, FactType.LAPSED, FactType.ENDED}
