"""Masters as people see them."""

from crawlfleet.version import __version__
from tests.api.kit import Site


async def test_the_masters_are_listed_with_their_figures(site: Site) -> None:
    assert site.master.reporter is not None
    await site.master.reporter.wait_for_passes(1)
    (master,) = (await site.get("/api/v1/masters")).json["masters"]
    assert (master["name"], master["version"]) == ("master", __version__)
    assert master["is_alive"] and master["is_leader"]
    assert master["silent_s"] < 15
    assert master["figures"]["loops"]["dispatcher"]["overdue_s"] >= 0


async def test_a_viewer_may_list_masters_and_a_caller_without_a_token_may_not(site: Site) -> None:
    assert (await site.get("/api/v1/masters", role="viewer")).status == 200
    assert (await site.get("/api/v1/masters", role=None)).status == 401
