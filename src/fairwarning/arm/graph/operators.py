"""The operators of a query, each from rows to rows."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from fairwarning.arm.graph.expressions import Expression, Row, Value, text_of

Operator = Callable[[list[Row]], list[Row]]
_encode = msgspec.json.Encoder(order="sorted").encode


def where(condition: Expression) -> Operator:
    """Keep the rows for which a condition holds."""
    return lambda rows: [row for row in rows if condition.of(row)]


def project(columns: Sequence[Expression]) -> Operator:
    """Make rows of these columns."""
    return lambda rows: [{column.name: column.of(row) for column in columns} for row in rows]


def project_away(names: Sequence[str]) -> Operator:
    """Remove columns."""
    return lambda rows: [{k: v for k, v in row.items() if k not in names} for row in rows]


def extend(columns: Sequence[Expression]) -> Operator:
    """Add columns; each sees those before it."""

    def add(rows: list[Row]) -> list[Row]:
        result = []
        for row in rows:
            wider = dict(row)
            for column in columns:
                wider[column.name] = column.of(wider)
            result.append(wider)
        return result

    return add


def limit(count: int) -> Operator:
    """Keep the first rows."""
    return lambda rows: rows[:count]


def count(rows: list[Row]) -> list[Row]:
    """Count the rows."""
    return [{"Count": len(rows)}]


def distinct(columns: Sequence[Expression]) -> Operator:
    """Keep each combination of these columns once."""

    def once(rows: list[Row]) -> list[Row]:
        made = project(columns)(rows)
        return list({_encode(row): row for row in reversed(made)}.values())[::-1]

    return once


def order(keys: Sequence[tuple[Expression, bool]]) -> Operator:
    """Sort by several columns; each has whether it is descending."""

    def ordered(rows: list[Row]) -> list[Row]:
        for column, descending in reversed(keys):
            rows = sorted(rows, key=lambda row: _key(column.of(row)), reverse=descending)
        return rows

    return ordered


def _key(value: Value) -> tuple[int, float, str]:
    """Order nulls before numbers before texts."""
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, int | float):
        return (1, float(value), "")
    return (2, 0.0, text_of(value))


# --- Aggregates -----------------------------------------------------------------------------------

Aggregate = Callable[[Sequence[Value]], Value]


def _present(values: Sequence[Value]) -> list[Value]:
    return [value for value in values if value is not None]


AGGREGATES: Mapping[str, Aggregate] = {
    "count": len,
    "dcount": lambda values: len({_encode(value) for value in _present(values)}),
    "min": lambda values: min(_present(values), key=_key, default=None),
    "max": lambda values: max(_present(values), key=_key, default=None),
    "sum": lambda values: sum(v for v in values if isinstance(v, int | float)),
}


def summarize(
    aggregates: Sequence[tuple[str, Aggregate, Expression]], by: Sequence[Expression]
) -> Operator:
    """Make one row for each combination of the columns `by`, with the aggregates of its rows."""

    def grouped(rows: list[Row]) -> list[Row]:
        groups: dict[bytes, tuple[Row, list[Row]]] = {} if by else {_encode({}): ({}, [])}
        for row in rows:
            key = {column.name: column.of(row) for column in by}
            groups.setdefault(_encode(key), (key, []))[1].append(row)
        return [
            {**key, **{name: of([value.of(r) for r in members]) for name, of, value in aggregates}}
            for key, members in groups.values()
        ]

    return grouped
