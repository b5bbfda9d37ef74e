"""A task becomes the members of a crawl over many nodes: what the engine makes of it, and where it is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from crawlfleet.control.composites.spread_crawl import SpreadCrawl
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.crawl import CrawlLimits, CrawlUrl
from crawlfleet.wire.groups import CrawlBody
from crawlfleet.wire.tasks import TaskBody
from tests.unit.control.composites.crawl_engine import ToyEngine


def spread(parameters: dict[str, Any], task_type: str = "toy_crawl") -> Any:
    body = TaskBody(task_type=task_type, parameters=msgspec.Raw(msgspec.json.encode(parameters)))
    return SpreadCrawl(engine=ToyEngine()).spread_task(body, CrawlBody(3))


def test_the_members_are_alike_and_the_seeds_are_the_crawls() -> None:
    members, crawl = spread({"urls": ["http://a/", "http://b/"]})
    assert [msgspec.json.decode(member.parameters) for member in members] == [
        {"urls": ["http://a/", "http://b/"], "is_member": True}
    ] * 3
    assert crawl.limits == CrawlLimits(3)
    assert crawl.seeds == [CrawlUrl("http://a/", 0), CrawlUrl("http://b/", 0)]


@pytest.mark.parametrize(
    ("parameters", "task_type", "field"),
    [
        ({"urls": ["http://a/"]}, "echo", "task.task_type"),
        ({}, "toy_crawl", "task.parameters"),
        ({"urls": [1]}, "toy_crawl", "task.parameters.urls[0]"),
        ({"urls": ["ftp://a/"]}, "toy_crawl", "task.parameters.urls"),
        ({"urls": ["http://" + "a" * limits.PARAMETERS_BYTES]}, "toy_crawl", "task.parameters.urls"),
    ],
)
def test_what_cannot_be_spread_is_refused_by_its_field(parameters: dict[str, Any], task_type: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        spread(parameters, task_type)
    assert refused.value.field == field
