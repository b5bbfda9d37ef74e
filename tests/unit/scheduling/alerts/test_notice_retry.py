"""The waits between attempts to deliver a notice."""

from __future__ import annotations

import pytest

from crawlfleet.scheduling.alerts.notice_retry import ABANDON_MS, retry_at, retry_delay_s


def test_waits_double_from_five_seconds_to_a_day() -> None:
    assert [retry_delay_s(tries) for tries in (0, 1, 2, 10)] == [5, 10, 20, 5_120]
    assert retry_delay_s(1_000_000) == 86_400


@pytest.mark.parametrize(("wish", "delay"), [(1, 5), (90, 90), (10**9, 86_400), (-5, 5)])
def test_the_wish_of_a_service_is_kept_within_a_day(wish: float, delay: float) -> None:
    assert retry_delay_s(0, wish) == delay


def test_a_refusal_that_will_not_change_by_itself_waits_longer() -> None:
    assert [retry_delay_s(tries, is_permanent=True) for tries in range(4)] == [5, 10, 600, 600]


def test_an_old_notice_is_given_up() -> None:
    assert retry_at(3, 0, ABANDON_MS - 1, None, is_permanent=False) == ABANDON_MS - 1 + 40_000
    assert retry_at(3, 0, ABANDON_MS, None, is_permanent=False) is None
