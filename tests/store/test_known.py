import gc

from fairwarning.core.model import Ref, Scope, ScopeKind
from fairwarning.store.postgres.entity_cache import EntityCache

A, B, C = ((Scope, name) for name in "abc")


def _scope(ref: Ref) -> Scope:
    return Scope(id=ref[1], kind=ScopeKind.STANDALONE)


def test_the_most_recent_entities_are_cached() -> None:
    """Up to the capacity; using an entity again keeps it."""
    cache = EntityCache(2)
    cache.put(A, 1, _scope(A))
    cache.put(B, 2, _scope(B))
    cache.put(A, 3, _scope(A))
    cache.put(C, 4, _scope(C))
    gc.collect()
    assert cache.get(A) == (3, _scope(A))
    assert cache.get(B) is None
    assert cache.get(C) == (4, _scope(C))


def test_an_entity_in_use_elsewhere_stays_cached() -> None:
    """Such as a scope that is served; it is removed with its last user."""
    cache, served = EntityCache(0), _scope(A)
    cache.put(A, 1, served)
    cache.put(B, 2, _scope(B))
    assert cache.get(A) == (1, served)
    assert cache.get(B) is None
    newer = _scope(A)
    cache.put(A, 3, newer)
    del served
    gc.collect()
    assert cache.get(A) == (3, newer)
    del newer
    gc.collect()
    assert cache.get(A) is None


def test_a_late_read_does_not_replace_a_newer_entity() -> None:
    """The results of two reads may arrive in reverse order."""
    cache = EntityCache(2)
    newer, older = _scope(A), _scope(A)
    cache.put(A, 2, newer)
    cache.put(A, 1, older)
    cached = cache.get(A)
    assert cached
    assert cached[0] == 2
    assert cached[1] is newer
    cache.drop(A)
    cache.drop(A)
    assert cache.get(A) is None
    cache.put(A, 1, older)
    cache.clear()
    assert cache.get(A) is None
