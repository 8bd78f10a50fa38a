"""Functions of templates that depend only on their arguments."""

import pytest

from tests.arm.evaluation import Json, refusal, value

pytestmark = pytest.mark.spec("C1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Conversions, and the functions that most templates use.
        ("concat('port', 22, true())", "port22True"),
        ("concat(createArray(1), createArray('a', createArray()))", [1, "a", []]),
        ("string(5)", "5"),
        ("string(createArray(1, 'a', null(), false()))", '[1,"a",null,false]'),
        ("string(null())", ""),
        ("int('-42')", -42),
        ("int(7)", 7),
        ("bool('True')", True),
        ("bool(0)", False),
        ("format('{0}-{1} {{{0}}}', 'a', 5)", "a-5 {a}"),
        ("if(equals(1, 1), 'yes', div(1, 0))", "yes"),
        ("if(not(equals('a', 'A')), 'differ', div(1, 0))", "differ"),
        ("equals(1, true())", False),
        ("equals(createArray(1, 'a'), createArray(1, 'a'))", True),
        ("and(true(), true(), false())", False),
        ("or(false(), true())", True),
        ("empty('')", True),
        ("empty(null())", True),
        ("empty(createObject('a', 1))", False),
        ("length(createObject('a', 1))", 1),
        ("length('four')", 4),
        ("first('abc')", "a"),
        ("last(createArray(1, 2))", 2),
        ("first(createArray())", None),
        ("last('')", ""),
        ("split('a,b;c', ',')", ["a", "b;c"]),
        ("split('a,b;c', createArray(',', ';'))", ["a", "b", "c"]),
        ("split('abc', '')", ["abc"]),
        ("null()", None),
        # Positions and starts in strings ignore case, as on Azure.
        ("trim('  a b ')", "a b"),
        ("substring('abcdef', 2)", "cdef"),
        ("substring('abcdef', 2, 3)", "cde"),
        ("indexOf('abCabc', 'c')", 2),
        ("indexOf('abc', 'z')", -1),
        ("indexOf(createArray('a', 'b'), 'b')", 1),
        ("lastIndexOf('abCabc', 'C')", 5),
        ("lastIndexOf(createArray(1, 2, 1), 1)", 2),
        ("lastIndexOf(createArray(1), 3)", -1),
        ("startsWith('Azure', 'AZ')", True),
        ("endsWith('Azure', 'x')", False),
        ("replace('a-b-c', '-', '')", "abc"),
        ("replace('abc', '', 'x')", "abc"),
        ("padLeft('7', 3, '0')", "007"),
        ("padLeft(7, 3)", "  7"),
        ("join(createArray('a', 1, true()), '-')", "a-1-True"),
        ("join(createArray(), ',')", ""),
        ("format('{0:D3}|{1:00}|{2:D2}', 7, 5, -3)", "007|05|-03"),
        ("format('{0}', createArray(1))", "[1]"),
        ("base64('äb')", "w6Ri"),
        ("base64ToString('w6Ri')", "äb"),
        ("base64ToJson(base64('{\"a\": 1}'))", {"a": 1}),
        ("uri('http://example.org/a/', 'b.sh')", "http://example.org/a/b.sh"),
        ("uri('http://example.org/a', 'b.sh')", "http://example.org/b.sh"),
        ("uriComponent('a b/ä')", "a%20b%2F%C3%A4"),
        ("uriComponentToString('a%20b')", "a b"),
        # Division is towards zero; and, or and coalesce evaluate only what they need.
        ("add(2, -5)", -3),
        ("sub(2, 5)", -3),
        ("mul(4, 5)", 20),
        ("div(7, 2)", 3),
        ("div(-7, 2)", -3),
        ("mod(-7, 2)", -1),
        ("mod(7, -2)", 1),
        ("min(3, 1, 2)", 1),
        ("max(createArray(3, 1))", 3),
        ("less(1, 2)", True),
        ("lessOrEquals(2, 2)", True),
        ("greater('b', 'a')", True),
        ("greaterOrEquals(1, 2)", False),
        ("and(false(), div(1, 0))", False),
        ("or(true(), div(1, 0))", True),
        ("coalesce(null(), null(), 3, div(1, 0))", 3),
        ("coalesce(null())", None),
        # Unions keep the order of first occurrence.
        ("array('a')", ["a"]),
        ("array(createArray(1))", [1]),
        ("contains('abc', 'b')", True),
        ("contains('abc', 'B')", False),
        ("contains(createArray(1, createArray(2)), createArray(2))", True),
        ("contains(createObject('Key', 1), 'kEY')", True),
        ("skip(createArray(1, 2, 3), 2)", [3]),
        ("skip('abc', -1)", "abc"),
        ("take('abc', 2)", "ab"),
        ("take(createArray(1), 5)", [1]),
        ("range(3, 2)", [3, 4]),
        ("range(3, 0)", []),
        ("flatten(createArray(createArray(1), createArray(2, createArray(3))))", [1, 2, [3]]),
        ("union(createArray(1, 2), createArray(2, 3))", [1, 2, 3]),
        ("intersection(createArray(3, 1, 2, 3), createArray(2, 3))", [3, 2]),
        ('union(json(\'{"a": {"x": 1}}\'), json(\'{"a": {"y": 2}}\'))', {"a": {"x": 1, "y": 2}}),
        ("intersection(createObject('a', 1, 'b', 2), createObject('a', 1, 'b', 3))", {"a": 1}),
        (
            "items(createObject('b', 1, 'a', 2))",
            [{"key": "a", "value": 2}, {"key": "b", "value": 1}],
        ),
        ("objectKeys(createObject('b', 1, 'a', 2))", ["a", "b"]),
        ("shallowMerge(createArray(createObject('a', 1), createObject('a', 2)))", {"a": 2}),
        ("tryGet(createObject('a', createArray(5)), 'A', 0)", 5),
        ("tryGet(createObject('a', 1), 'b')", None),
        ("tryGet(null(), 'b')", None),
        ("json('{\"a\": [1, null, true]}')", {"a": [1, None, True]}),
        ("json('null')", None),
        # A lambda sees its own variables and those of the lambdas around it.
        ("filter(createArray(1, 2, 3), lambda('x', greater($X, 1)))", [2, 3]),
        ("filter(createArray('a', 'b'), lambda('x', 'i', equals($i, 1)))", ["b"]),
        ("map(range(0, 3), lambda('i', format('vm{0}', $i)))", ["vm0", "vm1", "vm2"]),
        ("map(createArray('a'), lambda('x', 'i', $i))", [0]),
        ("reduce(range(1, 3), 0, lambda('a', 'b', add($a, $b)))", 6),
        ("sort(createArray(3, 1, 2), lambda('a', 'b', less($a, $b)))", [1, 2, 3]),
        ("toObject(createArray('a'), lambda('x', $x), lambda('x', 1))", {"a": 1}),
        ("toObject(createArray('a'), lambda('x', $x))", {"a": "a"}),
        (
            "map(createArray(1, 2), lambda('x', map(createArray(10), lambda('y', add($x, $y)))))",
            [[11], [12]],
        ),
        # The examples of Azure's documentation.
        (
            "parseCidr('10.144.0.0/20')",
            {
                "network": "10.144.0.0",
                "netmask": "255.255.240.0",
                "broadcast": "10.144.15.255",
                "firstUsable": "10.144.0.1",
                "lastUsable": "10.144.15.254",
                "cidr": 20,
            },
        ),
        ("cidrSubnet('10.144.0.0/20', 24, 1)", "10.144.1.0/24"),
        ("cidrHost('10.144.3.0/24', 0)", "10.144.3.1"),
        ("cidrHost('fd00::/64', 1)", "fd00::2"),
        ("dateTimeAdd('2020-04-07T14:53:14Z', 'P3D')", "2020-04-10T14:53:14Z"),
        ("dateTimeAdd('2020-04-07 14:53:14Z', '-PT1H30M')", "2020-04-07 13:23:14Z"),
        ("dateTimeAdd('20200407T145314Z', 'P1W', 'yyyy-MM-dd HH:mm')", "2020-04-14 14:53"),
        ("dateTimeAdd('20200407T145314Z', 'P1Y')", "20210407T145314Z"),
        ("dateTimeToEpoch('2023-05-02T15:16:13Z')", 1683040573),
        ("dateTimeToEpoch('2023-05-02T17:16:13+02:00')", 1683040573),
    ],
)
def test_functions(text: str, expected: object) -> None:
    """Each function behaves as Azure documents it."""
    result = value(f"[{text}]")
    assert (result, type(result)) == (expected, type(expected))


def test_names_that_depend_on_all_arguments() -> None:
    """A unique string has 13 letters and digits; a guid is a UUID of version 5."""
    for name in ("uniqueString", "guid"):
        texts = ("'a', 'b'", "'b', 'a'", "'ab'", "'a', 'c'")
        results = [value(f"[{name}({text})]") for text in texts]
        assert len({*results}) == len(texts)
        assert results[0] == value(f"[{name}('a', 'b')]") == results[0].lower()
    assert (len(results[0]), results[0][14]) == (36, "5")
    unique = value("[uniqueString('a')]")
    assert (len(unique), unique.isalnum()) == (13, True)


def loop(name: str, count: object, repeated: object) -> Json:
    """Return an object with a property that is repeated."""
    return {"copy": [{"name": name, "count": count, "input": repeated}]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[copyIndex()]", 4),
        ("[copyIndex(1)]", 5),
        ("[copyIndex('nics')]", 2),
        ("[copyIndex('NICS', 10)]", 12),
        (loop("d", 2, "[copyIndex('d', 1)]"), {"d": [1, 2]}),
        (loop("d", "[length('ab')]", {"lun": "[copyIndex('d')]"}), {"d": [{"lun": 0}, {"lun": 1}]}),
        ({**loop("d", 0, 1), "e": 1}, {"d": [], "e": 1}),
        (
            loop("a", 2, loop("b", 1, "[add(copyIndex('a'), copyIndex('b', 5))]")),
            {"a": [{"b": [5]}, {"b": [6]}]},
        ),
    ],
)
def test_loops(text: object, expected: object) -> None:
    """A loop has a number, which copyIndex returns: of the resource, or of a named loop."""
    assert value(text, loops={"": 4, "nics": 2}) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[substring('abc', 2, 2)]", "within the string, which has 3 characters"),
        ("[padLeft('a', 5, 'xy')]", "one character to fill with"),
        ("[padLeft('a', 10000000)]", "may not write more than"),
        ("[base64ToString('!')]", "takes a string in base64"),
        ("[base64ToJson('!')]", "takes a string in base64"),
        ("[json('{')]", "takes a string of valid JSON"),
        ("[json('NaN')]", "takes a string of valid JSON"),
        ("[format('{0:D2}', 'a')]", "only the formats {0:D3}"),
        ("[div(1, 0)]", "may not divide by zero"),
        ("[mul(9223372036854775807, 2)]", "must fit into 64 bits"),
        ("[min(createArray())]", "takes ints, or an array of ints"),
        ("[less(1, 'a')]", "takes two ints or two strings"),
        ("[contains('abc', 1)]", "takes string as its argument 2, not int"),
        ("[indexOf('abc', 1)]", "takes string as its argument 2, not int"),
        ("[range(0, 10001)]", "takes a count from 0 to 10000"),
        ("[flatten(createArray(1))]", "takes an array of arrays"),
        ("[union(createArray(), createObject())]", "takes either only arrays or only objects"),
        ("[createObject('a')]", "takes names, each followed by its value"),
        ("[createObject(1, 2)]", "takes names, each followed by its value"),
        ("[shallowMerge(createArray(1))]", "takes an array of objects"),
        ("[filter(createArray(1), lambda('x', 1))]", "takes a lambda that returns bool, not int"),
        ("[toObject(createArray(1), lambda('x', 1))]", "takes a lambda that returns string"),
        ("[map(createArray(1), 'x')]", "takes lambda as its argument 2, not string"),
        ("[equals(lambda('x', 1), 1)]", "takes any as its argument 1, not lambda"),
        ("[contains(createArray(1), lambda('x', 1))]", "not lambda"),
        (r"""[json('"\ud800"')]""", "takes a string of valid JSON"),
        ("[createArray(lambda('x', 1))]", "takes any as its argument 1, not lambda"),
        ("[lambda(1, 1)]", "takes the names of its variables as strings"),
        ("[map(createArray(1), lambda('a', 'b', 'c', 1))]", "a lambda of at most 2 variables"),
        ("[lambdaVariables('x')]", "is not a variable of a lambda around it"),
        ("[copyIndex('a')]", "is not inside this loop; the loops around it are: none"),
        ("[copyIndex('a', 'b')]", "takes the name of a loop, an offset as int, or both"),
        ("[copyIndex(1, 2)]", "takes the name of a loop, an offset as int, or both"),
        ("[parseCidr('10.0.0.0/33')]", "takes an address range"),
        ("[cidrSubnet('10.0.0.0/16', 8, 0)]", "takes a prefix length from 16 to 32"),
        ("[cidrSubnet('10.0.0.0/16', 17, 2)]", "within the range"),
        ("[cidrHost('10.0.0.0/30', 2)]", "within the range"),
        ("[dateTimeAdd('soon', 'P1D')]", "takes a time such as"),
        ("[dateTimeAdd('2020-01-01T00:00:00Z', '1 day')]", "takes a duration such as PT1H"),
        ("[dateTimeAdd('2020-01-01T00:00:00Z', 'P9999Y')]", "not in the years 1 to 9999"),
        ("[uri('http://[', 'x')]", "takes a valid URI"),
        (loop("a", -1, 1), "an int from 0 to 800, not -1"),
        ({**loop("a", 1, 1), "a": 1}, "has another property 'a'"),
    ],
)
def test_errors(text: object, message: str) -> None:
    """An error names the function and what it takes."""
    assert message in refusal(lambda: value(text))


@pytest.mark.parametrize(
    "text",
    [
        "[map(range(0, 10000), lambda('x', map(range(0, 10000), lambda('y', 1))))]",
        "[reduce(range(0, 10000), createArray(1), lambda('a', 'b', concat($a, $a)))]",
        "[reduce(range(0, 10000), range(0, 10000), lambda('a', 'b', if(contains($a, 0), $a, 1)))]",
        "[sort(range(0, 10000), lambda('a', 'b', contains(range(0, 10000), 1)))]",
        loop("a", 800, loop("b", 800, 1)),
        "[replace(replace(padLeft('', 999999, 'a'), 'a', 'b'), 'b', 'ccc')]",
        "[join(range(0, 10000), padLeft('', 1000))]",
    ],
)
def test_work_is_limited(text: object) -> None:
    """A short expression cannot run for long or write gigabytes."""
    message = refusal(lambda: value(text))
    assert "create more than" in message or "may not write more than" in message
