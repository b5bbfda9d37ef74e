"""Counts of one day."""

from crawlfleet.observe.daily_count import DailyCount

DAY_MS = 86_400_000


def test_a_daily_count_begins_anew_at_midnight() -> None:
    count = DailyCount()
    assert count.count_today(DAY_MS) == 0
    count.add_one(DAY_MS + 1)
    count.add_one(2 * DAY_MS - 1)
    assert count.count_today(2 * DAY_MS - 1) == 2
    assert count.count_today(2 * DAY_MS) == 0
    count.add_one(2 * DAY_MS)
    assert count.count_today(2 * DAY_MS) == 1
