"""How soon the granter looks again: nodes wait for every step of a cut and a raise."""

from crawlfleet.control.loops.granter import GAP_LEAST_S, GAP_MOST_S, gap_s


def test_a_short_pass_is_followed_soon_and_a_long_one_leaves_room_for_others() -> None:
    assert gap_s(0.0) == GAP_LEAST_S
    assert gap_s(0.02) == 0.02
    assert gap_s(3.0) == GAP_MOST_S
