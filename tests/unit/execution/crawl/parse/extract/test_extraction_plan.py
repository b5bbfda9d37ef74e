"""What is wrong with a plan is told by name and place, all of it, before any page is read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from crawlfleet.control.tasks.task_types import TaskTypes
from crawlfleet.execution.crawl.parse.extract.css_check import css_problem
from crawlfleet.execution.crawl.parse.extract.extraction_plan import BadPlan, compile_plan
from crawlfleet.execution.crawl.parse.extract.limits import MAX_FIELDS
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from crawlfleet.execution.executors.inside.parameter_check import build_check
from crawlfleet.execution.executors.registry import builtin_checks
from crawlfleet.execution.sdk import Executor, TaskError
from tests.unit.execution.crawl.parse.extract.extract_kit import problems


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("div[", "'[' at position 3 is not closed"),
        ("h2 >", "expected selector, got eof at position 4"),
        ("div, h2 >", "expected selector, got eof at position 9"),
        ("a::attr(href)", ":attr() at position 2 is not known"),
        ("h2:nope", ":nope at position 2 is not known"),
        (".a..b", "expected ident, got delim '.' at position 3"),
        ("a[href=x y]", "expected ']', got ident 'y' at position 9"),
        ('[a="b]', "the string at position 3 is not closed"),
        ("a:nth-child(2n+)", "'2n+' at position 12 is no count of :nth-child()"),
        (":is(p, :nope)", "':nope' at position 6 is none itself"),
        ("a)b", "')' at position 1 closes nothing"),
        ("a\\", "ends with a backslash at position 1"),
        (":not(" * 9 + "p" + ")" * 9, "is nested more than 8 deep at position 44"),
        ("a\0b", "has control characters"),
        (" ", "is empty"),
    ],
)
def test_a_css_selector_that_does_not_parse_says_where(text: str, said: str) -> None:
    assert css_problem(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("//div[", "invalid expression at position 6"),
        ("//a/b/@@c", "invalid expression at position 7"),
        ("//a[@b='c]", "unfinished literal at position 10"),
        ("//x:y", "undefined namespace prefix"),
        # Only a page on which a div is found would run into it.
        ("//div[lower-case(@class)='x']", "there is no lower-case() at position 6"),
        ("//div[ matches (., 'a()')]/text()", "there is no matches() at position 7"),
        ("//a[last() or ends-with(@href, 'x')]", "there is no ends-with() at position 14"),
    ],
)
def test_an_xpath_that_does_not_parse_says_where(text: str, said: str) -> None:
    assert problems({"selectors": {"it": text}})["selectors.it"].endswith(f"is no XPath: {said}")


@pytest.mark.parametrize(
    "text",
    [
        "//div[contains(@class, 'x (y)') and (position() mod (2)) = 1]/text()",
        "(//a | //b)[not(starts-with(normalize-space(.), 'f()'))]/node()",
        "//a[count(ancestor::li) > 1 or (true())]/comment()",
        "count(//tr)",
        "//processing-instruction('x')",
    ],
)
def test_an_xpath_of_known_functions_and_words_before_brackets_is_taken(text: str) -> None:
    assert problems({"selectors": {"it": text}}) == {}


PIECES = st.sampled_from(
    [
        "div",
        "p",
        ".a",
        "#b",
        "[href]",
        "[a='x' i]",
        "*",
        " ",
        ">",
        "+",
        "~",
        ",",
        "|",
        ":not(",
        ":is(",
        ":has(",
        ":where(",
        ":nth-child(",
        ":nth-last-of-type(",
        "2n+1",
        " of ",
        ")",
        ")",
        "]",
        "[",
        ":",
        "::",
        ":nope",
        ":lexbor-contains(",
        '"',
        "'",
        "\\",
        ":first-child",
        ":root",
        "é",
        "汉",
        "1",
        "=",
        "\t",
    ]
)


@given(st.lists(PIECES, max_size=16).map("".join))
@example("i2n:is(:lexbor-contains()\t::,:nth-last-of-type(:#\\")
@example(":where(:lexbor-contains(1)class,:nth-last-of-type()~~\\")
def test_no_text_that_is_checked_ends_the_process(text: str) -> None:
    """The examples did, before there was a check."""
    if css_problem(text) is None:
        LexborHTMLParser("<div class=a><p><a href=x>").css(text)


def test_one_key_of_the_result_is_not_for_two_things() -> None:
    fields = {"fields": {"a": "h1"}}
    taken = "is the key of the pages themselves in the result (page)"
    assert problems({"page": ["text"], "extract": {"pages": fields}}) == {"extract.pages": taken}
    assert problems({"page": ["text"], "selectors": {"page": "div", "a": "h1"}}) == {"selectors.page": taken}
    assert problems({"extract": {"pages": fields}}) == {}
    assert problems({"selectors": {"page": "div", "a": "h1"}}) == {}


def test_all_problems_are_told_at_once() -> None:
    found = problems(
        {
            "selectors": {"a": "div["},
            "extract": {
                "things": {
                    "container": "li:nope",
                    "fields": {
                        "one": "h2 >",
                        "two": {"selector": "b", "regex": "(a"},
                        "three": {"selector": "b", "regex": "(?=a)b"},
                        "four": {"selector": "b", "currency": "EUR"},
                        "five": {"json": "a"},
                        "seven": {"fields": {"x": "y"}},
                    },
                },
                "rows": {"json": "rows[", "fields": {"a": "b", "c": {"selector": "b"}, "d": "f(@)"}},
                "both": {"json": "a", "container": "b", "fields": {"a": "b"}},
                "as": {"fields": {"x": "b"}},
            },
        }
    )
    assert set(found) == {
        "selectors.a",
        "extract.things.container",
        "extract.things.fields.one.selector",
        "extract.things.fields.two.regex",
        "extract.things.fields.three.regex",
        "extract.things.fields.four.currency",
        "extract.things.fields.five.json",
        "extract.things.fields.seven",
        "extract.rows.json",
        "extract.rows.fields.c",
        "extract.rows.fields.c.selector",
        "extract.rows.fields.d.json",
        "extract.both",
        "extract.as",
    }
    assert found["extract.things.fields.two.regex"] == (
        "'(a' is no pattern that takes linear time: missing ): (a at position 0"
    )
    assert found["extract.rows.json"].endswith("at position 5")


@pytest.mark.parametrize(
    ("parameters", "path"),
    [
        ({"selectors": 5}, "selectors"),
        ({"selectors": {"a": 5}}, "selectors.a"),
        ({"selectors": []}, "selectors"),
        ({"extract": {"a": "b"}}, "extract.a"),
        ({"extract": {"a": {"fields": {"b": {"type": "colour"}}}}}, "extract.a.fields.b.type"),
        ({"extract": {"a": {"fields": {"b": {"container": "ul", "fields": {}}}}}}, "extract.a.fields.b.fields"),
        ({"page": ["markdown", "poem"]}, "page[1]"),
    ],
)
def test_another_shape_is_a_problem_too_whatever_schema_let_it_pass(parameters: dict[str, Any], path: str) -> None:
    assert list(problems(parameters)) == [path]


def test_bounds() -> None:
    many = {f"c{n}": {"fields": {f"f{at}": "b" for at in range(MAX_FIELDS // 4)}} for n in range(5)}
    assert problems({"extract": many}) == {"extract": "250 fields; at most 200 are taken"}
    deep: dict[str, Any] = {"container": "ul", "fields": {"x": "b"}}
    for _ in range(5):
        deep = {"container": "ul", "fields": {"inner": deep}}
    (path,) = problems({"extract": {"top": deep}})
    assert path == "extract.top" + ".fields.inner" * 4
    assert "longer than 500 characters" in problems({"selectors": {"a": "b" * 600}})["selectors.a"]


def test_a_plan_is_compiled_once_for_the_same_parameters() -> None:
    asked = {"selectors": {"a": "b"}, "url": "http://a.test/"}
    assert compile_plan(asked) is compile_plan(dict(asked, url="http://b.test/"))
    with pytest.raises(BadPlan):
        compile_plan({"selectors": {"a": "["}})


def refusal(parameters: dict[str, Any], **more: Any) -> tuple[str | None, str] | None:
    types = TaskTypes({"web_crawl": WebCrawl.schema}, builtin_checks())
    refused = types.find_refusal("web_crawl", msgspec.json.encode({"url": "http://a.test/", **parameters}), **more)
    return None if refused is None else (refused.field, refused.detail)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"selectors": {"a": "div["}}, "parameters.selectors.a"),
        ({"extract": {}}, "parameters.extract"),
        ({"extract": {"a": {"container": "b"}}}, "parameters.extract.a"),
        ({"extract": {"a": {"fields": {}}}}, "parameters.extract.a.fields"),
        ({"extract": {"a": {"fields": {"_b": "c"}}}}, "parameters.extract.a.fields"),
        ({"extract": {"a": {"fields": {"b": 5}}}}, "parameters.extract.a.fields.b"),
        ({"extract": {"a": {"fields": {"b": {"tipe": "price"}}}}}, "parameters.extract.a.fields.b"),
        ({"extract": {"a": {"fields": {"b": {"type": "colour"}}}}}, "parameters.extract.a.fields.b.type"),
        ({"extract": {"a": {"fields": {"b": {"fields": {"c": 1}}}}}}, "parameters.extract.a.fields.b.fields.c"),
        ({"extract": {"a": {"fields": {"b": "c >"}}}}, "parameters.extract.a.fields.b.selector"),
        ({"extract": {"a": {"fields": {"b": {"regex": "(?<=a)"}}}}}, "parameters.extract.a.fields.b.regex"),
        ({"page": ["poem"]}, "parameters.page[0]"),
    ],
)
def test_a_submit_names_the_field(parameters: dict[str, Any], field: str) -> None:
    told = refusal(parameters)
    assert told is not None
    assert told[0] == field


def test_a_submit_tells_the_other_problems_too() -> None:
    told = refusal({"selectors": {f"s{n}": "[" for n in range(8)}})
    assert told is not None
    assert told[1].count("at position 0 is not closed") == 5
    assert told[1].endswith("; and 3 more")
    assert refusal({"selectors": {"a": "b"}}) is None


def test_a_template_with_references_is_checked_when_they_are_filled() -> None:
    asked = {"selectors": {"a": "["}, "urls": {"$from": "steps.list.result.urls"}}
    assert refusal(asked, is_template=True) is None
    assert refusal({"selectors": {"a": "["}}, is_template=True) is not None


def test_an_executor_of_ones_own_may_look_further_than_its_schema() -> None:
    class Picky(Executor):
        task_type = "picky"

        @classmethod
        def problems(cls, parameters: Any) -> list[tuple[str, str]]:
            return [("n", "is odd")] if parameters["n"] % 2 else []

    check = build_check(Picky)
    check({"n": 2})
    with pytest.raises(TaskError, match=r"^parameters\.n: is odd$"):
        check({"n": 1})
