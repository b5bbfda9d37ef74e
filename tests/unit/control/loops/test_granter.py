"""How soon the granter looks again: nodes wait for every step of a cut and a raise."""

from crawlfleet.control.loops.granter import MAX_GAP_S, MIN_GAP_S, pause_after_pass_s


def test_a_short_pass_is_followed_soon_and_a_long_one_leaves_room_for_others() -> None:
    assert pause_after_pass_s(0.0) == MIN_GAP_S
    assert pause_after_pass_s(0.02) == 0.02
    assert pause_after_pass_s(3.0) == MAX_GAP_S
