"""The checks of the installation over HTTP."""

from crawlfleet.scheduling.doctor.check_list import CHECKS
from tests.api.kit import Site

PATH = "/api/v1/doctor"


async def test_every_check_answers(site: Site) -> None:
    assert site.master.reporter is not None
    await site.master.reporter.wait_for_passes(1)
    view = (await site.get(PATH)).json
    assert {finding["check"] for finding in view["findings"]} == {check.id for check in CHECKS}
    assert sum(view["counts"].values()) == len(view["findings"])
    assert view["counts"]["error"] == 0, view["findings"]
    unchecked = [finding for finding in view["findings"] if finding["sentence"].startswith("not checked")]
    assert unchecked == []


async def test_a_cause_is_found_with_its_hint(site: Site) -> None:
    await site.post("/api/v1/queues/slow:pause")
    await site.submit(queue="slow")
    view = (await site.get(f"{PATH}?only=D22")).json
    (finding,) = view["findings"]
    assert finding["severity"] == "warning"
    assert finding["sentence"].startswith("queue slow is paused for ")
    assert finding["sentence"].endswith(" by the admin, with 1 task waiting")
    assert finding["hint"] == "crawlfleet queue resume slow"


async def test_checks_are_chosen_and_an_unknown_one_is_refused(site: Site) -> None:
    view = (await site.get(f"{PATH}?only=d2,HOSTS")).json
    assert [finding["check"] for finding in view["findings"]] == ["D2", "D27"]
    answer = await site.get(f"{PATH}?only=D15")
    assert (answer.status, answer.json["field"]) == (422, "only")
    assert "'d15' is no check" in answer.json["detail"]


async def test_a_viewer_may_ask_and_a_caller_without_a_token_may_not(site: Site) -> None:
    assert (await site.get(f"{PATH}?only=D2", role="viewer")).status == 200
    assert (await site.get(PATH, role=None)).status == 401
    assert (await site.get(PATH, role="enrol")).status == 403
