"""Why a group stands still: what is the same for many of its members is said once."""

from __future__ import annotations

from typing import Any

from crawlfleet.scheduling.explain.group import explain_group
from crawlfleet.scheduling.explain.hosts import HostWait
from crawlfleet.scheduling.explain.task import Why


def member(cause: str, sentence: str = "so it is", **data: Any) -> Why:
    return Why(sentence, {"status": "pending", "cause": cause, **data})


def wait(host: str, cause: str = "host_backoff") -> HostWait:
    return HostWait(host, cause, f"waits for host {host}: {cause}", {"until": "soon"})


def test_hosts_come_first_and_those_in_back_off_before_all() -> None:
    running = [member("processing")] * 3
    hosts = [wait("b.example", "host_budget"), wait("c.example"), wait("a.example"), wait("c.example")]
    said = explain_group(3, running, hosts)
    assert said.sentence == (
        "waits for host a.example: host_backoff; waits for host c.example: host_backoff; "
        "waits for host b.example: host_budget"
    )
    assert (said.data["cause"], said.data["open"], said.data["members"]) == ("host_backoff", 3, {"processing": 3})
    assert [one["host"] for one in said.data["waits_for"]] == ["a.example", "c.example", "b.example"]


def test_a_list_of_hosts_is_told_in_part() -> None:
    said = explain_group(1, [member("processing")], [wait(f"{letter}.example") for letter in "abcdef"])
    assert said.sentence.count("waits for host") == 3
    assert len(said.data["waits_for"]) == 6


def test_what_holds_up_most_is_told_and_work_is_no_reason_while_there_is_another() -> None:
    members = [member("processing")] * 4 + [member("no_node", "0 of 2 nodes: 2 full")] * 2 + [member("time")]
    said = explain_group(40, members, [])
    assert said.sentence == "2 of 40 open members: 0 of 2 nodes: 2 full"
    assert (said.data["cause"], said.data["members"]["processing"]) == ("no_node", 4)
    assert explain_group(4, members[:4], []).data["cause"] == "processing"


def test_nothing_holds_up_a_group_without_open_members() -> None:
    assert explain_group(0, [], []) == Why("every member has ended", {"cause": "final", "open": 0})
