"""Evaluates expressions over results: JMESPath, which has no code and no loops, under a budget.

Even so a few characters can cost more than any machine has: `[@,@][]|[@,@][]|...` doubles at every bar. So every
node visited costs, and every value made costs what it weighs, each time it appears: a value that only looks small,
because its parts are shared, weighs what it would take to write it down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jmespath.exceptions import ParseError
from jmespath.functions import Functions, signature
from jmespath.parser import Parser
from jmespath.visitor import Options, TreeInterpreter

EXPRESSION_CHARS = 1_000
EXPRESSION_DEPTH = 40
BUDGET = 500_000
"""Budget of one decision about one step; enough for the widest fan-out, and about a second at most."""
_CHARS_PER_UNIT = 16
_NEW_VALUE_COST = 3
"""Cost of making a value, beside that of the visit, as it takes that much longer."""

Node = Mapping[str, Any]

_VALUE_MAKING_NODES = frozenset(
    {
        "multi_select_list",
        "multi_select_dict",
        "function_expression",
        "flatten",
        "projection",
        "value_projection",
        "filter_projection",
        "slice",
    }
)
_FIRST_CHILD_NODES = frozenset(
    {"subexpression", "index_expression", "pipe", "projection", "value_projection", "filter_projection", "flatten"}
)
"""Types of nodes of which only the first part looks at what the whole expression looks at."""


class InvalidExpression(ValueError):
    """An expression that cannot be parsed; the message has where."""


class EvaluationError(Exception):
    """An expression has no value over this data: a function does not accept its argument, or it costs too much."""


class BudgetExceeded(EvaluationError):
    pass


class EvaluationBudget:
    """The cost budget of one decision, and the interpreter that charges it."""

    __slots__ = ("interpreter", "left")

    def __init__(self, units: int = BUDGET) -> None:
        self.left = units
        self.interpreter = _Interpreter(self)

    def charge(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            raise BudgetExceeded("costs more than a step may: look at less, or make less of it")

    def charge_value(self, value: Any) -> None:
        """Charge what it would take to write the value down."""
        stack = [value]
        while stack:
            part = stack.pop()
            self.charge(1)
            if isinstance(part, str):
                self.charge(len(part) // _CHARS_PER_UNIT)
            elif isinstance(part, dict):
                # Before its parts are put on the stack, which must not be what costs too much.
                self.charge(len(part))
                stack.extend(part)
                stack.extend(part.values())
            elif isinstance(part, list):
                self.charge(len(part))
                stack.extend(part)


@dataclass(frozen=True, slots=True)
class Expression:
    text: str
    tree: Node

    def referenced_names(self) -> Iterator[tuple[str, ...]]:
        """The names it refers to, from the top: `steps.a.result[0]` is (steps, a, result)."""
        return _names(self.tree)


@lru_cache(maxsize=2048)
def parse_expression(text: str) -> Expression:
    """Parse and check an expression. Raises InvalidExpression."""
    if len(text) > EXPRESSION_CHARS:
        raise InvalidExpression(f"an expression has at most {EXPRESSION_CHARS} characters")
    if not text.strip():
        raise InvalidExpression("is empty")
    try:
        tree: Node = Parser().parse(text).parsed
    except ParseError as exc:
        # The library's own text draws an arrow under the expression, over three lines.
        position = getattr(exc, "lex_position", None)
        token = getattr(exc, "token_value", None)
        message = getattr(exc, "message", None) or f"unexpected {'end' if token is None or token == '' else token!r}"
        message += " (a number is written `3`, in backticks)" if isinstance(token, int) else ""
        shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in message)
        raise InvalidExpression(
            f"is no expression: {shown} at position {len(text) if position is None else position}"
        ) from exc
    except RecursionError as exc:
        raise InvalidExpression(_TOO_DEEP) from exc
    except (ValueError, Warning) as exc:
        raise InvalidExpression(f"is no expression: {exc}") from exc
    _check_tree(tree, text)
    return Expression(text, tree)


def evaluate_expression(expression: Expression, data: Any, budget: EvaluationBudget) -> Any:
    """The value of an expression over `data`, None where there is none. Raises EvaluationError."""
    try:
        value = budget.interpreter.visit(expression.tree, data)
        budget.charge_value(value)
    except EvaluationError:
        raise
    except Exception as exc:
        # Whatever a user's expression does with another user's data ends here: the transaction it runs in finishes
        # other users' tasks too.
        raise EvaluationError(_FIRST_LINE.match(str(exc)).group()) from exc  # type: ignore[union-attr]
    return value


def is_truthy(value: Any) -> bool:
    """Whether a value is true by the rules of JMESPath: null, false and what is empty are not; zero is."""
    return value is not None and value is not False and value not in ("", [], {})


_FIRST_LINE = re.compile(".*")
_TOO_DEEP = f"is nested more than {EXPRESSION_DEPTH} deep"


class _Functions(Functions):
    def __init__(self, budget: EvaluationBudget) -> None:
        self._budget = budget

    @signature({"types": ["string"]}, {"types": ["array-string"]})
    def _func_join(self, separator: str, array: list[str]) -> str:
        # The only one that makes more of its arguments than they weigh.
        self._budget.charge(len(separator) * len(array) // _CHARS_PER_UNIT)
        return separator.join(array)


class _Interpreter(TreeInterpreter):
    def __init__(self, budget: EvaluationBudget) -> None:
        super().__init__(Options(custom_functions=_Functions(budget)))
        self._budget = budget

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        self._budget.charge(1)
        value = super().visit(node, *args, **kwargs)
        if node["type"] in _VALUE_MAKING_NODES:
            self._budget.charge(_NEW_VALUE_COST)
            self._budget.charge_value(value)
        return value


def _children(node: Node) -> list[Node]:
    return [child for child in node["children"] if isinstance(child, dict)]


def _check_tree(tree: Node, text: str) -> None:
    """Check what the library would only notice when the expression runs."""
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > EXPRESSION_DEPTH:
            raise InvalidExpression(_TOO_DEEP)
        for node in level:
            if node["type"] == "function_expression":
                _check_function(node, text)
            if node["type"] == "subexpression" and _children(node)[0]["type"] == "not_expression":
                raise InvalidExpression(f"! reaches only to the next dot: write !(...) (at position {text.find('!')})")
        level = [child for node in level for child in _children(node)]


def _check_function(node: Node, text: str) -> None:
    name, count = node["value"], len(node["children"])
    function = _Functions.FUNCTION_TABLE.get(name)
    if function is None:
        raise InvalidExpression(f"there is no function {name} (at position {text.find(name)})")
    wanted = len(function["signature"])
    is_open = bool(wanted) and function["signature"][-1].get("variadic", False)
    if count < wanted or (count > wanted and not is_open):
        raise InvalidExpression(f"the function {name} takes {wanted}, not {count} (at position {text.find(name)})")


def _names(node: Node) -> Iterator[tuple[str, ...]]:
    kind, children = node["type"], _children(node)
    if kind == "field":
        yield (node["value"],)
    elif kind in ("subexpression", "pipe"):
        heads = [_head(child) for child in children]
        is_plain = heads[0] is not None and kind == "subexpression"
        yield from [tuple(_leading(heads))] if is_plain else _names(children[0])
    elif kind in _FIRST_CHILD_NODES:
        yield from _names(children[0])
    elif kind != "expref":
        for child in children:
            yield from _names(child)


def _leading(heads: list[str | None]) -> Iterator[str]:
    for head in heads:
        if head is None:
            return
        yield head


def _head(node: Node) -> str | None:
    """The field that `a[0]`, `a[*].b` or `a[?c]` begins with."""
    while node["type"] in _FIRST_CHILD_NODES - {"pipe", "subexpression"} and _children(node):
        node = _children(node)[0]
    return node["value"] if node["type"] == "field" else None
