"""Records behave as dataclasses do."""

from dataclasses import field, fields, replace
from weakref import ref

import pytest

from fairwarning.core.record import changed, record, short_record


@record
class Base:
    """A record with a default and a factory."""

    name: str
    parts: list[int] = field(default_factory=list)
    size: int = 3


@record
class Derived(Base):
    """A record with one more required field."""

    color: str
    secret: str = field(default="", repr=False, compare=False)


@short_record
class Point:
    """A record whose fields may be given by position."""

    x: int
    y: int = 0


def test_values_and_defaults() -> None:
    """Each value has its own result of a factory."""
    first, second = Base(name="a"), Base(name="b", parts=[1], size=5)
    assert (first.name, first.parts, first.size) == ("a", [], 3)
    assert (second.name, second.parts, second.size) == ("b", [1], 5)
    assert first.parts is not Base(name="c").parts
    assert Point(1) == Point(x=1, y=0)


def test_wrong_arguments() -> None:
    """They are refused as those of any function, at the first creation and later."""
    for _ in range(2):
        with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'name'"):
            Base()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="unexpected keyword argument 'weight'"):
            Base(name="a", weight=1)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="positional"):
            Base("a")  # type: ignore[call-arg]


def test_inheritance() -> None:
    """A derived record has all fields, and is not equal to a base record."""
    value = Derived(name="a", color="red")
    assert [part.name for part in fields(value)] == ["name", "parts", "size", "color", "secret"]
    assert value == Derived(name="a", color="red", secret="x")
    assert value != Base(name="a")
    assert Base(name="a") != value


def test_the_text_is_that_of_a_dataclass() -> None:
    """Without fields that are not shown."""
    value = Derived(name="a", color="red", secret="x")
    assert repr(value) == "Derived(name='a', parts=[], size=3, color='red')"


def test_other_properties() -> None:
    """Records have no hash and no other attributes, and can be referred to weakly and copied."""
    value = Base(name="a")
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)
    with pytest.raises(AttributeError):
        value.weight = 1  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        Point(1).z = 1  # type: ignore[attr-defined]
    assert ref(value)() is value
    assert changed(value, size=9) == replace(value, size=9) == Base(name="a", size=9)
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)
