"""The words of the API's schemas are those of the statuses."""

from typing import get_args

from crawlfleet.api.views.nodes import NodeStatusWord
from crawlfleet.api.views.tasks import StatusWord
from crawlfleet.model.status import NodeStatus, TaskStatus


def test_every_status_of_a_task_has_its_word() -> None:
    assert get_args(StatusWord) == tuple(status.word for status in TaskStatus)


def test_every_status_of_a_node_has_its_word() -> None:
    assert get_args(NodeStatusWord) == tuple(status.word for status in NodeStatus)
