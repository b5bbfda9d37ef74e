"""The checks of the installation, made on the master that is asked."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from fastapi import Query
from starlette.responses import Response

from crawlfleet.api.http.auth import allow
from crawlfleet.api.http.parameters import Text
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.principal import Principal, Role
from crawlfleet.scheduling.doctor.check_list import select_checks
from crawlfleet.scheduling.doctor.findings import FindingSeverity

routes = RouteTable("doctor", PREFIX)

Only = Annotated[
    Text,
    Query(
        max_length=limits.LABEL_CHARS,
        description="Ids of checks and areas with commas between them, such as `D2,hosts`; all for none.",
    ),
]


class FindingView(msgspec.Struct, frozen=True):
    check: str
    """The id of the check, as in the documentation."""
    area: str
    """store, masters, nodes, work, hosts or care."""
    severity: Literal["ok", "note", "warning", "error"]
    sentence: str
    hint: str
    """What to do about it, a command where there is one; empty for what is in order."""


class DoctorView(msgspec.Struct, frozen=True):
    findings: list[FindingView]
    """In the order of the checks: a line for each problem, and one for each check that found none."""
    counts: dict[str, int]
    """How many findings of each severity."""


@routes.get("/doctor", ResponseSpec(DoctorView, "What was found; a check that could not be made is a note."))
async def examine_installation(services: TheServices, only: Only = "", _: Principal = allow(Role.VIEWER)) -> Response:
    """Check the installation: the store, the masters, nodes, waiting work, hosts, and what people have to care for."""
    try:
        checks = select_checks(only.split(","))
    except ValueError as exc:
        raise InvalidInput(str(exc), field="only") from exc
    findings = await services.doctor.examine(checks)
    counts = {severity.value: 0 for severity in FindingSeverity}
    for finding in findings:
        counts[finding.severity.value] += 1
    return json_response(
        DoctorView(
            [
                FindingView(finding.check, finding.area, finding.severity.value, finding.sentence, finding.hint)
                for finding in findings
            ],
            counts,
        )
    )
