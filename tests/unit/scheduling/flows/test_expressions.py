"""Expressions: what is read, what is refused, and that none can ask for more than it may."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.scheduling.flows.expressions import (
    EXPRESSION_CHARS,
    BudgetExceeded,
    EvaluationBudget,
    EvaluationError,
    InvalidExpression,
    evaluate_expression,
    is_truthy,
    parse_expression,
)

DATA = {"steps": {"list": {"status": "completed", "result": {"urls": ["a", "b"], "n": 3, "name": "x"}}}}


def value(text: str, data: Any = DATA) -> Any:
    return evaluate_expression(parse_expression(text), data, EvaluationBudget())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("steps.list.result.urls", ["a", "b"]),
        ("steps.list.result.urls[0]", "a"),
        ("length(steps.list.result.urls) > `1`", True),
        ("steps.list.status == 'completed' && steps.list.result.n >= `3`", True),
        ("!(steps.list.result.missing)", True),
        ("steps.missing.result", None),
        ("join('-', steps.list.result.urls)", "a-b"),
    ],
)
def test_expressions_are_those_of_jmespath(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("steps..a", "unexpected '.' at position 6"),
        ("steps[", "unexpected 'end' at position 6"),
        ("steps.a b", "unexpected 'b' at position 8"),
        ("length(a) > 3", "unexpected 3 (a number is written `3`, in backticks) at position 12"),
        ("'open", "Unclosed ' delimiter at position 0"),
        ("a == __import__('os')", "no function __import__ (at position 5)"),
        ("length(a, b)", "takes 1, not 2"),
        ("!steps.a.x", "write !(...)"),
        ("(" * 500, "nested more than"),
        ("||".join(["a"] * 100), "nested more than"),
        ("a" * (EXPRESSION_CHARS + 1), "at most 1000 characters"),
        ("a\x00", "position 1"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(InvalidExpression, match=r"(?s).*") as caught:
        parse_expression(text)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("steps.a.result.b", [("steps", "a", "result", "b")]),
        ("steps.a.result[?x > `1`].y | steps.b", [("steps", "a", "result")]),
        ("length(steps.a.results) == steps.b.result[0]", [("steps", "a", "results"), ("steps", "b", "result")]),
        ("{x: steps.a, y: item}", [("steps", "a"), ("item",)]),
        ("map(&inner, steps.a.results)", [("steps", "a", "results")]),
        ("steps.*.status", [("steps",)]),
        ("!(steps.a.result)", [("steps", "a", "result")]),
        ("@", []),
    ],
)
def test_an_expression_knows_what_it_looks_at(text: str, names: list[tuple[str, ...]]) -> None:
    assert list(parse_expression(text).referenced_names()) == names


BOMBS = [
    "|".join(["[@,@][]"] * 19),
    "|".join(["[@,@]"] * 30) + "|to_string(@)|length(@)",
    "|".join(["[@,@]"] * 30) + "|[@ == @]",
    "|".join(["{a:@,b:@}"] * 30),
    "|".join(["map(&[@,@], [@,@][])"] * 15),
    "join(to_string(list), list[*].to_string(@))",
    "list[*].[@,@,@,@,@,@,@,@] | [*].[@,@,@,@,@,@,@,@] | [*].[@,@,@,@,@,@,@,@] | [][]",
    "sort_by(" * 10 + "list" + ", &to_string(@))" * 10 + " | " + "|".join(["[@,@][]"] * 15),
]


@pytest.mark.parametrize("text", BOMBS)
def test_a_bomb_costs_no_more_than_its_budget(text: str) -> None:
    started = time.process_time()
    with pytest.raises(BudgetExceeded):
        value(text, {"list": list(range(2_000))})
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    "text", ["abs('x')", 'sum(`["a"]`)', "ceil(to_number('inf'))", 'sort(`[1, "a"]`)', "max_by(@, &x)"]
)
def test_what_has_no_answer_says_why_on_one_line(text: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        value(text)
    assert str(caught.value)
    assert "\n" not in str(caught.value)


def test_truth_is_that_of_jmespath() -> None:
    assert [is_truthy(one) for one in (None, False, "", [], {}, 0, 0.0, True, "x", [0], {"a": None})] == [
        False,
        False,
        False,
        False,
        False,
        True,
        True,
        True,
        True,
        True,
        True,
    ]


PIECES = st.sampled_from(
    [
        "@",
        "steps",
        ".",
        "a",
        "[",
        "]",
        "[]",
        "[*]",
        "[?",
        "(",
        ")",
        "|",
        "||",
        "&&",
        "!",
        ",",
        "{",
        "}",
        ":",
        "`1`",
        "==",
        "<",
        "&",
        "map(",
        "sort_by(",
        "to_string(",
        "join(",
        "length(",
        "[@,@]",
        "[@,@][]|",
        "*",
        "[::-1]",
        '"a"',
        "'x'",
        "\\",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=20,
)


@given(st.lists(PIECES, max_size=40).map("".join), VALUES)
def test_whatever_is_said_is_read_or_refused_and_answered_or_not(text: str, data: Any) -> None:
    try:
        expression = parse_expression(text)
    except InvalidExpression:
        return
    budget = EvaluationBudget(20_000)
    try:
        evaluate_expression(expression, data, budget)
    except EvaluationError:
        pass
    assert budget.left >= -20_000
