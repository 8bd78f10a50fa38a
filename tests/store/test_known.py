import gc

from fairwarning.core.model import Ref, Scope, ScopeKind
from fairwarning.store.postgres.entity_cache import EntityCache

A, B, C = ((Scope, name) for name in "abc")


def _scope(ref: Ref) -> Scope:
    return Scope(id=ref[1], kind=ScopeKind.STANDALONE)


def test_the_last_ones_are_kept() -> None:
    """As many as were asked for; who is used again stays."""
    known = EntityCache(2)
    known.put(A, 1, _scope(A))
    known.put(B, 2, _scope(B))
    known.put(A, 3, _scope(A))
    known.put(C, 4, _scope(C))
    gc.collect()
    assert known.get(A) == (3, _scope(A))
    assert known.get(B) is None
    assert known.get(C) == (4, _scope(C))


def test_what_somebody_else_keeps_is_known_for_as_long() -> None:
    """Such as a scope that is shown; with its last reader it is forgotten."""
    known, shown = EntityCache(0), _scope(A)
    known.put(A, 1, shown)
    known.put(B, 2, _scope(B))
    assert known.get(A) == (1, shown)
    assert known.get(B) is None
    newer = _scope(A)
    known.put(A, 3, newer)
    del shown
    gc.collect()
    assert known.get(A) == (3, newer)
    del newer
    gc.collect()
    assert known.get(A) is None


def test_what_was_read_late_does_not_take_the_place_of_what_is_newer() -> None:
    """Two reads may come back in the other order."""
    known = EntityCache(2)
    newer, older = _scope(A), _scope(A)
    known.put(A, 2, newer)
    known.put(A, 1, older)
    found = known.get(A)
    assert found
    assert found[0] == 2
    assert found[1] is newer
    known.drop(A)
    known.drop(A)
    assert known.get(A) is None
    known.put(A, 1, older)
    known.clear()
    assert known.get(A) is None
