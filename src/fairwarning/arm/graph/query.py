"""Parses a query: a table and the operators on its rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fairwarning.arm.graph import operators
from fairwarning.arm.graph.expressions import (
    COMPARISONS,
    FUNCTIONS,
    MEMBERSHIPS,
    Expression,
    Row,
    Value,
    both,
    column,
    compare,
    either,
    is_member,
    literal,
)
from fairwarning.arm.graph.operators import AGGREGATES, Aggregate, Operator
from fairwarning.arm.graph.tokens import END, GraphQueryError, Token, tokenize

T = TypeVar("T")
TABLES = ("Resources", "ResourceContainers", "MaintenanceResources")
_DEPTH = 40  # of parentheses
_OPERATORS_MAX = 50
_LIMIT_DIGITS = 9
_CONSTANTS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True)
class GraphQuery:
    """A parsed query."""

    table: str
    operators: Sequence[Operator]
    types: frozenset[str] | None = None  # the only types that can be in the result; None: any

    def run(self, rows: list[Row]) -> list[Row]:
        """Return the result for the rows of the table."""
        for operator in self.operators:
            rows = operator(rows)
        return rows


def parse(text: str) -> GraphQuery:
    """Parse a query; raise `GraphQueryError` with what is supported."""
    return _Parser(list(tokenize(text))).query()


class _Parser:
    """A recursive-descent parser of one query."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._depth = 0

    # --- Tokens ---

    @property
    def _next(self) -> Token:
        return self._tokens[self._place] if self._place < len(self._tokens) else END

    def _take(self) -> Token:
        token = self._next
        self._place += 1
        return token

    def _accept(self, *values: str) -> str:
        """Take the next token if it is one of these words or signs; return it or ""."""
        token = self._next
        if token.kind in {"word", "sign"} and token.value.lower() in values:
            self._place += 1
            return token.value.lower()
        return ""

    def _expect(self, value: str) -> None:
        if not self._accept(value):
            raise GraphQueryError(f"The query has {self._next} where '{value}' must be.")

    def _word(self, what: str) -> str:
        token = self._take()
        if token.kind != "word":
            raise GraphQueryError(f"The query has {token} where {what} must be.")
        return token.value

    def _list(self, item: Callable[[], T]) -> list[T]:
        items = [item()]
        while self._accept(","):
            items.append(item())
        return items

    # --- The query ---

    def query(self) -> GraphQuery:
        """Parse the whole query."""
        table = "Resources"
        if self._next.value.lower() not in self._operators():
            table = self._table()
        parsed: list[Operator] = []
        types: frozenset[str] | None = None
        narrows = (
            True  # until an operator makes other rows, conditions are about those of the table
        )
        while self._next is not END:
            if parsed or self._place:
                self._expect("|")
            name = self._word("an operator").lower()
            if name == "where":
                condition = self._either()
                parsed.append(operators.where(condition))
                if narrows and condition.types is not None:
                    types = condition.types if types is None else types & condition.types
                continue
            narrows = False
            parsed.append(self._operator(name))
            if len(parsed) > _OPERATORS_MAX:
                raise GraphQueryError(f"The query has more than {_OPERATORS_MAX} operators.")
        return GraphQuery(table, parsed, types)

    def _table(self) -> str:
        name = self._word("a table")
        for table in TABLES:
            if table.lower() == name.lower():
                return table
        text = f"The table '{name[:60]}' is not supported; use {', '.join(TABLES)}."
        raise GraphQueryError(text)

    def _operators(self) -> dict[str, Callable[[], Operator]]:
        return {
            "where": lambda: operators.where(self._either()),
            "project": lambda: operators.project(self._list(self._named)),
            "project-away": lambda: operators.project_away(self._list(self._column_name)),
            "extend": lambda: operators.extend(self._list(self._named)),
            "limit": lambda: operators.limit(self._number()),
            "take": lambda: operators.limit(self._number()),
            "top": self._top,
            "count": lambda: operators.count,
            "distinct": lambda: operators.distinct(self._list(self._named)),
            "order": self._order,
            "sort": self._order,
            "summarize": self._summarize,
        }

    def _operator(self, name: str) -> Operator:
        known = self._operators()
        if name not in known:
            text = f"The operator '{name[:60]}' is not supported; use {', '.join(known)}."
            raise GraphQueryError(text)
        return known[name]()

    # --- Operators ---

    def _named(self) -> Expression:
        """Parse a column, `name = expression`, or an expression that has a name."""
        place = self._place
        if self._next.kind == "word":
            name = self._take().value
            if self._accept("="):
                return replace(self._either(), name=name)
            self._place = place
        expression = self._either()
        if not expression.name:
            text = f"A column needs a name before {self._next}: write NAME = EXPRESSION."
            raise GraphQueryError(text)
        return expression

    def _column_name(self) -> str:
        return self._word("a column")

    def _number(self) -> int:
        token = self._take()
        if token.kind != "number" or not token.value.isdigit() or len(token.value) > _LIMIT_DIGITS:
            raise GraphQueryError(f"The query has {token} where a whole number must be.")
        return int(token.value)

    def _order(self) -> Operator:
        self._expect("by")
        return operators.order(self._list(self._key))

    def _key(self) -> tuple[Expression, bool]:
        key = self._either()
        return key, self._accept("asc", "desc") != "asc"  # without a word, it is descending

    def _top(self) -> Operator:
        count = self._number()
        self._expect("by")
        key = self._key()
        return lambda rows: operators.order([key])(rows)[:count]

    def _summarize(self) -> Operator:
        aggregates = self._list(self._aggregate)
        by = self._list(self._named) if self._accept("by") else []
        return operators.summarize(aggregates, by)

    def _aggregate(self) -> tuple[str, Aggregate, Expression]:
        name = ""
        word = self._word("an aggregate")
        if self._accept("="):
            name, word = word, self._word("an aggregate")
        aggregate = AGGREGATES.get(word.lower())
        if aggregate is None:
            known = ", ".join(f"{known}()" for known in AGGREGATES)
            text = f"The aggregate '{word[:60]}' is not supported; use {known}."
            raise GraphQueryError(text)
        self._expect("(")
        value = literal(1) if word.lower() == "count" else self._either()
        self._expect(")")
        return name or f"{word.lower()}_{value.name}", aggregate, value

    # --- Expressions ---

    def _either(self) -> Expression:
        left = self._both()
        while self._accept("or"):
            left = either(left, self._both())
        return left

    def _both(self) -> Expression:
        left = self._comparison()
        while self._accept("and"):
            left = both(left, self._comparison())
        return left

    def _comparison(self) -> Expression:
        left = self._operand()
        if operator := self._accept(*COMPARISONS):
            return compare(left, operator, self._operand())
        if operator := self._accept("in", "!in", "in~", "!in~"):
            operator += "~" if not operator.endswith("~") and self._accept("~") else ""
            assert operator in MEMBERSHIPS
            self._expect("(")
            members = self._list(self._constant)
            self._expect(")")
            return is_member(left, operator, members)
        return left

    def _constant(self) -> Value:
        token = self._take()
        if token.kind == "text":
            return token.value
        if token.kind == "number":
            return float(token.value) if "." in token.value else int(token.value)
        if token.kind == "word" and token.value.lower() in _CONSTANTS:
            return _CONSTANTS[token.value.lower()]
        raise GraphQueryError(f"The query has {token} where a text or a number must be.")

    def _operand(self) -> Expression:
        token = self._next
        if token.kind in {"text", "number"} or token.value.lower() in _CONSTANTS:
            return literal(self._constant())
        if self._accept("("):
            inner = self._nested()
            self._expect(")")
            return inner
        if self._accept("["):  # a column whose name is quoted
            name = str(self._constant())
            self._expect("]")
            return self._path(name)
        name = self._word("a column")
        return self._call(name) if self._accept("(") else self._path(name)

    def _nested(self) -> Expression:
        self._depth += 1
        if self._depth > _DEPTH:
            raise GraphQueryError(f"The query is nested more than {_DEPTH} levels deep.")
        inner = self._either()
        self._depth -= 1
        return inner

    def _call(self, name: str) -> Expression:
        function = FUNCTIONS.get(name.lower())
        if function is None:
            known = ", ".join(f"{known}()" for known in FUNCTIONS)
            raise GraphQueryError(f"The function '{name[:60]}' is not supported; use {known}.")
        argument = self._nested()
        self._expect(")")
        is_type = argument.is_type and name.lower() == "tolower"
        return Expression(lambda row: function(argument.of(row)), argument.name, is_type=is_type)

    def _path(self, first: str) -> Expression:
        path: list[str | int] = [first]
        while sign := self._accept(".", "["):
            if sign == ".":
                path.append(self._word("a column"))
                continue
            step = self._constant()
            if not isinstance(step, str | int):
                raise GraphQueryError("An index must be a text or a whole number.")
            path.append(step)
            self._expect("]")
        return column(path)
