"""The checks without a master, on stores of both kinds, beside a master that runs too."""

from __future__ import annotations

import asyncio

from crawlfleet.bootstrap.maintenance.offline_doctor import examine_installation
from crawlfleet.scheduling.doctor.check_list import CHECKS
from crawlfleet.scheduling.doctor.findings import Finding, FindingSeverity
from testkit.patience import promised
from tests.integration.bootstrap.maintenance.conftest import Places
from tests.integration.bootstrap.maintenance.installations import fill, serving


def sentences(findings: list[Finding]) -> dict[str, str]:
    return {finding.check: finding.sentence for finding in findings}


async def test_an_installation_at_rest_is_checked(places: Places) -> None:
    settings = places.settings("fleet")
    await fill(settings, 3)
    findings = await examine_installation(settings, CHECKS)
    told = sentences(findings)
    assert told["D9"].startswith("no master runs")
    assert told["D20"] == "3 tasks wait and no node has joined"
    assert told["D11"] == "counters agree with the rows"
    errors = [finding.sentence for finding in findings if finding.severity is FindingSeverity.ERROR]
    assert all("synchronous_commit off" in sentence for sentence in errors), "as the server of the tests has it"


async def test_an_installation_that_runs_is_checked_beside_its_master(places: Places) -> None:
    settings = places.settings("fleet")
    async with serving(settings) as client:
        async with asyncio.timeout(promised(10)):
            while not [each for each in await client.masters() if each.is_leader and each.version]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        told = sentences(await examine_installation(settings, CHECKS))
        assert told["D9"] == "one master leads"
        assert told["D10"] == "loops pass"
