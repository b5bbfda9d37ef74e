"""What a backup counts."""

from crawlfleet.bootstrap.maintenance.database_facts import tasks_by_word
from crawlfleet.model.status import TaskStatus


def test_tasks_are_counted_by_word_in_the_order_of_their_lives() -> None:
    rows = [(TaskStatus.FAILED.value, 2), (TaskStatus.PENDING.value, 1), (TaskStatus.WAITING.value, 0)]
    assert list(tasks_by_word(rows).items()) == [("pending", 1), ("failed", 2)]
