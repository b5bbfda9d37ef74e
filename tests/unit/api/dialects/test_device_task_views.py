"""Words of the device dialect for the status of tasks."""

from __future__ import annotations

from typing import get_args

from crawlfleet.api.dialects.device_task_views import TaskWord, parse_task_word, task_word
from crawlfleet.model.status import TaskStatus


def test_every_status_has_a_word_that_leads_back() -> None:
    words = {task_word(status): status for status in TaskStatus}
    assert set(words) == set(get_args(TaskWord))
    assert words["running"] is TaskStatus.PROCESSING
    assert {word: parse_task_word(word) for word in words} == words
