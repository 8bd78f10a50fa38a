"""The edges of what the fields of commands may contain."""

import pytest

from fairwarning.core import checks, limits
from fairwarning.core.model import Machine
from fairwarning.core.record import Check

ID, NAME, TEXT = "x" * limits.ID_CHARACTERS, "x" * limits.NAME_CHARACTERS, "x" * 1000
RESOURCE, BODY = "x" * limits.RESOURCE_ID_CHARACTERS, "x" * limits.RESOURCE_CHARACTERS
TAGS = {str(number): "" for number in range(limits.TAGS)}
MACHINES = tuple(Machine(name=f"m{n}", address=f"10.0.0.{n}") for n in range(200))
MANY = tuple(str(number) for number in range(limits.FOLLOWING_COMMANDS))
LAST_SECOND = 253_402_300_799  # of the year 9999
SURROGATE = "\ud800"

EDGES: list[tuple[Check, list[object], list[object]]] = [
    (
        checks.known,
        ["a", "a b", "a/b", ".", ID],
        ["", " a", "a ", "a\n", ID + "x", None, SURROGATE],
    ),
    (checks.name, ["a", "a b", "...", NAME], ["", ".", "..", NAME + "x", None, ("a",)]),
    (checks.plain, ["a", "a b"], ["", "a/b"]),
    (checks.entry, ["a", "a,b"], ["", "a b", "a/b"]),
    (checks.unspaced, ["a", "a,b"], ["", "a b"]),
    (checks.listed, ["a", "a/b"], ["", "a b", "a,b"]),
    (checks.optional, ["", "a", ID], [" a", None, ID + "x"]),
    (checks.optional_name, ["", "a", NAME], [".", None, NAME + "x"]),
    (checks.text, ["", "a\nb", TEXT], [TEXT + "x", SURROGATE, None, b"a"]),
    (checks.resource, ["a", "a b", RESOURCE], ["", "a\n", RESOURCE + "x", None]),
    (checks.optional_resource, ["", "a"], [RESOURCE + "x", None]),
    (checks.resources, [(), ("a", "b"), MANY], [("a", "a"), ("",), ["a"], (*MANY, "x"), None]),
    (checks.zones, [(), ("1", "2")], [("1", "1"), ("",), ["1"], None]),
    (checks.commands, [(), MANY], [(*MANY, "x"), ["x"], None]),
    (checks.body, ["", BODY], [BODY + "x", SURROGATE, None]),
    (checks.address, ["10.0.0.4", "fd00::4"], ["10.0.0.04", "::ffff:10.0.0.4", "", 4, None]),
    (checks.address, [], ["fe80::1%eth0", "fe80::1%1.2.3.4"]),
    (checks.subnet, ["10.0.0.0/16", "10.0.0.0/29"], ["10.0.0.0/15", "10.0.0.0/30", "", 4, None]),
    (checks.names(2), [("a",), ("a", "b")], [(), ("a", "a"), ("a", "b", "c"), ("",), ["a"], "a"]),
    (checks.whole(1, 3), [1, 3], [0, 4, True, 1.0, "1", None]),
    (checks.wholes(2, 3), [(0,), (3, 0)], [(), (4,), (-1,), (1, 1), (0, 1, 2), [1], None]),
    (checks.one_of(1, 2), [1, 2], [3, True, None]),
    (checks.or_none(checks.boolean), [None, True, False], [0, 1, "", "true"]),
    (checks.moment, [0, 0.5, LAST_SECOND + 0.5], [-1, LAST_SECOND + 1, True, "0", float("nan")]),
    (checks.date, [0, LAST_SECOND], [-1, LAST_SECOND + 1, 0.5]),
    (checks.terminate, [0, 300, 900], [1, 299, 901, -300, 300.0, None]),
    (checks.tags, [{}, {"a": ""}, TAGS], [TAGS | {"x": ""}, {"": "a"}, {"a": TEXT + "x"}, None]),
    (checks.notice, [1, 7 * 24 * 3600], [0, 7 * 24 * 3600 + 1]),
    (checks.duration, [-1, 0, 24 * 3600], [-2, 24 * 3600 + 1]),
    (checks.machines, [MACHINES[:1], MACHINES], [(), (*MACHINES, Machine(name="x")), MACHINES[0]]),
    (checks.first_machines, [(), MACHINES], [[MACHINES[0]], (MACHINES[0], None), None]),
    (checks.first_machines, [(Machine(name="a"), Machine(name="b"))], [MACHINES[:1] * 2]),
    (checks.first_machines, [], [(MACHINES[0], Machine(name="x", address=MACHINES[0].address))]),
    (checks.instances, [(36**6 - 1,)], [(36**6,)]),
    (checks.RULES["user_operations"], [1, 256], [0, 257]),
    (checks.RULES["enable_delay_seconds"], [0, 120], [-1, 121]),
    (checks.RULES["idle_seconds"], [60, 31_536_000], [59, 31_536_001]),
    (checks.RULES["impact_limit_seconds"], [1, 604_800], [0, 604_801]),
]


@pytest.mark.parametrize(("check", "allowed", "refused"), EDGES)
def test_the_edges_of_what_is_allowed(
    check: Check, allowed: list[object], refused: list[object]
) -> None:
    """A check has no opinion about what is allowed, and says what is for anything else."""
    assert [value for value in allowed if check(value) is not None] == []
    assert [value for value in refused if not check(value)] == []
