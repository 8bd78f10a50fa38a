"""The query language of Azure Resource Graph (C1)."""

from typing import Any

import pytest

from fairwarning.arm.graph.query import parse
from fairwarning.arm.graph.tokens import GraphQueryError

pytestmark = pytest.mark.spec("C1")

Json = dict[str, Any]
ROWS: list[Json] = [
    {"name": "a", "type": "x/vm", "n": 1, "tags": {"env": "Prod"}, "properties": {"d": [{"s": 4}]}},
    {"name": "b", "type": "x/vm", "n": 3, "tags": {}, "properties": {"on": True}},
    {"name": "c", "type": "x/disk", "n": 2, "tags": {"env": "test"}, "properties": {}},
]


def names(query: str) -> str:
    """Return the names of the resulting rows."""
    return "".join(row["name"] for row in parse(query).run(ROWS))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("type =~ 'X/VM'", "ab"),
        ("type == 'X/VM'", ""),
        ('type == "x/vm"', "ab"),
        ("type != 'x/vm'", "c"),
        ("type !~ 'X/vm'", "c"),
        ("name in ('a', 'c')", "ac"),
        ("name in~ ('A')", "a"),
        ("name !in ('a')", "bc"),
        ("name !in~ ('A')", "bc"),
        ("n > 1 and n <= 2", "c"),
        ("n < 2 or n >= 3", "ab"),
        ("tags.env =~ 'prod'", "a"),
        ("tags['env'] == 'test'", "c"),
        ("['type'] == 'x/disk'", "c"),
        ("tags.env != 'test'", "ab"),
        ("isnotempty(tags.env)", "ac"),
        ("isempty(tags.env)", "b"),
        ("isnull(properties.on)", "ac"),
        ("isnotnull(properties.on) == true", "b"),
        ("isnotempty(type) == true", "abc"),
        ("properties.on == true", "b"),
        ("properties.d[0].s == 4", "a"),
        ("array_length(properties.d) == 1", "a"),
        ("tolower(tags.env) == 'prod'", "a"),
        ("toupper(name) == 'B'", "b"),
        ("tostring(n) == '3'", "b"),
        ("toint('3') == n", "b"),
        ("type contains 'DISK'", "c"),
        ("type !contains 'disk'", "ab"),
        ("type startswith 'X/v'", "ab"),
        ("type endswith 'disk'", "c"),
        ("type has 'vm'", "ab"),
        ("type has 'v'", ""),
        ("not(type == 'x/vm')", "c"),
        ("(n == 1 or n == 2) and type == 'x/disk'", "c"),
        ("n == 1 or n == 2 and type == 'x/disk'", "ac"),
        ("name == 'a' // a comment", "a"),
    ],
)
def test_conditions(condition: str, expected: str) -> None:
    """Comparisons are those of Azure: ~ ignores case, null differs from everything."""
    assert names(f"Resources | where {condition}") == expected
    parsed = parse(f"Resources | where {condition}")
    kept = [row for row in ROWS if parsed.types is None or row["type"] in parsed.types]
    assert parsed.run(kept) == parsed.run(ROWS)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("resources | project name | limit 2", [{"name": "a"}, {"name": "b"}]),
        ("project name | take 1", [{"name": "a"}]),
        ("Resources | project x = n, tags.env | top 1 by x", [{"x": 3, "tags_env": None}]),
        ("Resources | order by n | project n", [{"n": 3}, {"n": 2}, {"n": 1}]),
        ("Resources | sort by type asc, n desc | project n", [{"n": 2}, {"n": 3}, {"n": 1}]),
        ("Resources | count", [{"Count": 3}]),
        ("Resources | where n > 9 | count", [{"Count": 0}]),
        ("Resources | summarize count()", [{"count_": 3}]),
        ("Resources | where n > 9 | summarize count()", [{"count_": 0}]),
        (
            "Resources | summarize total = count(), max(n) by type",
            [{"type": "x/vm", "total": 2, "max_n": 3}, {"type": "x/disk", "total": 1, "max_n": 2}],
        ),
        ("Resources | summarize dcount(type), sum(n), min(n)",
         [{"dcount_type": 2, "sum_n": 6, "min_n": 1}]),
        ("Resources | distinct type", [{"type": "x/vm"}, {"type": "x/disk"}]),
        ("Resources | extend e = tolower(tags.env) | where e == 'prod' | project e",
         [{"e": "prod"}]),
        ("Resources | limit 1 | project-away tags, properties, n", [{"name": "a", "type": "x/vm"}]),
    ],
)  # fmt: skip
def test_operators(query: str, expected: list[Json]) -> None:
    """Each operator of the language that is supported."""
    assert parse(query).run(ROWS) == expected


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Nothing | count", "Resources, ResourceContainers, MaintenanceResources"),
        ("Resources | join kind=inner (Resources) on name", "where, project"),
        ("Resources | mv-expand tags", "where, project"),
        ("Resources | where ago(1d) > n", "tolower()"),
        ("Resources | summarize avg(n)", "count()"),
        ("Resources | limit x", "a whole number"),
        ("Resources | limit -1", "not valid"),
        ("Resources where n", "'|'"),
        ("Resources | where", "a column"),
        ("Resources | where (n == 1", "')'"),
        ("Resources | where name in ()", "a text or a number"),
        ("Resources | where n == 'open", "not valid"),
        ("Resources | project n == 1", "needs a name"),
        ("Resources | where " + "(" * 5000 + "n", "nested"),
        ("Resources" + " | count" * 60, "operators"),
        ("x" * 30_000, "characters"),
        ("", "a table"),
    ],
)
def test_what_is_not_supported(query: str, text: str) -> None:
    """The error says what is supported."""
    with pytest.raises(GraphQueryError) as caught:
        parse(query)
    assert text in caught.value.message


def test_types_are_known_before() -> None:
    """A condition on the type tells which rows are needed at all."""
    assert parse("Resources | where type =~ 'X/vm'").types == frozenset({"x/vm"})
    assert parse("Resources | where type in~ ('A', 'b') and n > 1").types == frozenset({"a", "b"})
    assert parse("Resources | where type == 'a' or type == 'b'").types == frozenset({"a", "b"})
    assert parse("Resources | where type == 'a' or n == 1").types is None
    assert parse("Resources | where type == 'a' | where type == 'b'").types == frozenset()
    assert parse("Resources | extend type = 'a' | where type == 'a'").types is None
