"""Flows: every step ends as its edges, its condition and its parents' results say, in the parents' transaction."""

import asyncio
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest

from crawlfleet.model.flow import Edge, Unrun
from crawlfleet.model.group import GroupCounts, GroupKind
from crawlfleet.model.project import Quotas
from crawlfleet.model.refusal import Code
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.composite_store import StepRecord
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Claim, IdempotencyMismatch
from crawlfleet.scheduling.flows import flow_steps
from crawlfleet.scheduling.tasks import task_state_machine
from testkit.factories import PROJECT, Kit
from testkit.flow_kit import FlowKit

ROUNDS = 15
GRAPHS = 12
S = TaskStatus
Steps = dict[str, dict[str, Any]]


async def a_flow_is_a_closed_group_whose_steps_wait_for_their_parents(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {}, "b": {"after": ["a"]}, "c": {"after": {"a": "always", "b": "failure"}}})
    assert await flow.words() == {"a": "pending", "b": "waiting", "c": "waiting"}
    group = (await kit.second.load_groups([flow.id]))[flow.id]
    assert (group.kind, group.is_closed, group.project, group.name) == (GroupKind.FLOW, True, PROJECT, "a flow")
    assert await kit.second.group_counts([flow.id]) == {flow.id: GroupCounts(open=3)}
    assert {key: step.waits for key, step in (await flow.steps()).items()} == {"a": 0, "b": 1, "c": 2}
    place = await kit.second.place_in_flow(flow.tasks["c"])
    assert place is not None
    assert list(place.waits_for) == [("a", Edge.ALWAYS, S.PENDING), ("b", Edge.FAILURE, S.WAITING)]
    assert await kit.second.place_in_flow(await kit.submit_one()) is None


async def the_steps_that_may_run_are_told_when_a_flow_is_added(store: Store, kit: Kit) -> None:
    flow = await FlowKit.drafted(kit, {"a": {}, "b": {"after": ["a"]}, "c": {}})
    added = await flow.add()
    assert added.applied.ready == {kit.lane.id: [flow.tasks["a"], flow.tasks["c"]]}
    assert added.id == flow.id


async def a_success_edge_needs_a_completed_parent(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {}, "b": {"after": ["a"]}})
    applied = await flow.complete("a")
    assert applied.ready == {kit.lane.id: [flow.tasks["b"]]}
    assert await flow.words() == {"a": "completed", "b": "pending"}


async def a_failed_parent_breaks_a_success_edge_and_fires_the_others(store: Store, kit: Kit) -> None:
    steps: Steps = {"a": {}, "b": {"after": ["a"]}, "c": {"after": {"a": "failure"}}, "d": {"after": {"a": "always"}}}
    flow = await FlowKit.stored(kit, steps)
    await flow.fail("a")
    assert await flow.words() == {"a": "failed", "b": "cancelled", "c": "pending", "d": "pending"}
    broken = (await flow.steps())["b"]
    assert (broken.unrun, broken.reason) == (Unrun.BROKEN, "depends on step a, which ended failed")


async def a_completed_parent_skips_its_failure_edge(store: Store, kit: Kit) -> None:
    steps: Steps = {"a": {}, "c": {"after": {"a": "failure"}}, "e": {"after": ["c"]}, "f": {"after": {"c": "failure"}}}
    flow = await FlowKit.stored(kit, steps)
    await flow.complete("a")
    found = await flow.steps()
    assert {key: step.unrun for key, step in found.items()} == {
        "a": Unrun.NOT,
        "c": Unrun.SKIPPED,
        "e": Unrun.SKIPPED,
        "f": Unrun.SKIPPED,
    }
    assert (found["c"].reason, found["e"].reason) == ("step a did not fail", "step a did not fail")
    assert found["f"].reason == "step c did not fail"


async def what_is_broken_fires_a_failure_edge_further_down(store: Store, kit: Kit) -> None:
    steps: Steps = {"a": {}, "b": {"after": ["a"]}, "mend": {"after": {"b": "failure"}}}
    flow = await FlowKit.stored(kit, steps)
    await flow.fail("a")
    assert await flow.words() == {"a": "failed", "b": "cancelled", "mend": "pending"}


async def a_step_is_decided_upon_when_the_last_of_its_parents_has_ended(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {}, "b": {}, "c": {"after": ["a", "b"]}})
    await flow.fail("a")
    assert (await flow.words())["c"] == "waiting"
    await flow.complete("b")
    assert (await flow.words())["c"] == "cancelled"


async def a_condition_looks_at_results(store: Store, kit: Kit) -> None:
    steps: Steps = {
        "a": {},
        "many": {"after": ["a"], "when": "steps.a.result.n > `3`"},
        "few": {"after": ["a"], "when": "steps.a.result.n <= `3`"},
        "end": {"after": {"many": "always"}},
        "next": {"after": ["many"]},
    }
    flow = await FlowKit.stored(kit, steps)
    await flow.complete("a", {"n": 2})
    assert await flow.words() == {
        "a": "completed",
        "many": "cancelled",
        "few": "pending",
        "end": "pending",
        "next": "cancelled",
    }
    found = await flow.steps()
    assert found["many"].reason == found["next"].reason == "condition of step many not met: steps.a.result.n > `3`"


async def references_are_filled_from_results_when_a_step_is_released(store: Store, kit: Kit) -> None:
    parameters = {"url": {"$from": "steps.a.result.urls[0]"}, "n": {"$from": "steps.a.result.no", "default": 5}}
    steps: Steps = {"a": {}, "b": {"after": ["a"]}, "c": {"after": ["b"], "parameters": parameters}}
    flow = await FlowKit.stored(kit, steps)
    await flow.complete("a", {"urls": ["http://x/1", "http://x/2"]})
    assert await flow.parameters("c") == parameters
    await flow.complete("b")
    assert await flow.parameters("c") == {"url": "http://x/1", "n": 5}
    assert (await kit.second.load_deliveries([flow.tasks["c"]]))[
        flow.tasks["c"]
    ].parameters == b'{"url":"http://x/1","n":5}'


async def a_result_of_the_long_way_is_seen_as_well(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {}, "b": {"after": ["a"], "parameters": {"n": {"$from": "steps.a.result"}}}})
    run = (await kit.assign([flow.tasks["a"]], flow.node))[0]
    await kit.finish_with(kit.outcome(run)._replace(result=b"7"))
    assert await flow.parameters("b") == {"n": 7}


async def a_reference_to_nothing_fails_the_step_and_is_a_dead_letter(store: Store, kit: Kit) -> None:
    steps: Steps = {
        "a": {},
        "b": {"after": ["a"], "parameters": {"url": {"$from": "steps.a.result.url"}}},
        "c": {"after": {"b": "failure"}, "parameters": {"why": {"$from": "steps.b.reason"}}},
    }
    flow = await FlowKit.stored(kit, steps)
    await flow.complete("a", {"other": 1})
    assert await flow.words() == {"a": "completed", "b": "failed", "c": "pending"}
    reason = "parameters.url: steps.a.result.url gives nothing"
    assert (await flow.steps())["b"].reason == reason
    assert await flow.parameters("c") == {"why": reason}
    (letter,) = await kit.second.dead_letters(10)
    assert (letter.task, letter.failure and letter.failure.message) == (flow.tasks["b"], reason)


async def a_condition_that_costs_too_much_fails_the_step(store: Store, kit: Kit) -> None:
    bomb = "|".join(["[@,@][]"] * 18)
    flow = await FlowKit.stored(kit, {"a": {}, "b": {"after": ["a"], "when": f"steps.a.result.l | {bomb}"}})
    await flow.complete("a", {"l": list(range(100))})
    step = (await flow.steps())["b"]
    assert step.status is S.FAILED
    assert "costs more than a step may" in (step.reason or "")


async def a_fan_out_makes_a_task_of_each_item_and_gathers_them_in_order(store: Store, kit: Kit) -> None:
    parameters = {"url": {"$from": "item.url"}, "at": {"$from": "index"}, "of": {"$from": "steps.list.result.name"}}
    steps: Steps = {
        "list": {},
        "each": {"after": ["list"], "for_each": "steps.list.result.found", "parameters": parameters},
        "end": {"after": ["each"], "parameters": {"all": {"$from": "steps.each.results[*].n"}}},
    }
    flow = await FlowKit.stored(kit, steps)
    applied = await flow.complete("list", {"name": "shop", "found": [{"url": "x"}, {"url": "y"}, {"url": "z"}]})
    items = await flow.items("each")
    assert applied.ready == {kit.lane.id: items}
    assert await flow.parameters(items[1]) == {"url": "y", "at": 1, "of": "shop"}
    assert [(await kit.record(task)).name for task in items] == ["each[0]", "each[1]", "each[2]"]
    each = (await flow.steps())["each"]
    assert (each.status, each.waits, each.items) == (S.WAITING, 3, {S.PENDING: 3})
    assert await kit.second.group_counts([flow.id]) == {flow.id: GroupCounts(open=5, completed=1)}
    for number in (2, 0, 1):
        await flow.complete(items[number], {"n": number})
    assert await flow.words() == {"list": "completed", "each": "completed", "end": "pending"}
    assert await flow.result("each") == {"results": [{"n": 0}, {"n": 1}, {"n": 2}], "completed": 3, "failed": 0}
    assert await flow.parameters("end") == {"all": [0, 1, 2]}
    assert await kit.second.group_counts([flow.id]) == {flow.id: GroupCounts(open=1, completed=5)}
    assert await kit.second.count_members(flow.id) == GroupCounts(open=1, completed=5)
    assert await kit.second.task_totals() == await kit.second.count_rows()


async def items_that_a_quota_has_no_room_for_are_not_made(store: Store, kit: Kit) -> None:
    steps: Steps = {
        "list": {},
        "few": {"after": ["list"], "for_each": "steps.list.result"},
        "many": {"after": ["list"], "for_each": "steps.list.result"},
    }
    flow = await FlowKit.stored(kit, steps)
    # The two steps wait themselves: there is room for the items of one of them.
    await store.change_project(PROJECT, lambda have: replace(have, quotas=Quotas(waiting=6)), 1, kit.now)
    await flow.complete("list", [1, 2, 3])
    found = await flow.steps()
    assert sorted(step.status for key, step in found.items() if key != "list") == [S.WAITING, S.FAILED]
    (failed,) = (step for step in found.values() if step.status is S.FAILED)
    assert failed.reason == (
        f"3 items have no room: quota 'waiting' of project {PROJECT}: 5 of 6 wait, and 3 more would be above it"
    )
    assert await kit.second.task_totals() == await kit.second.count_rows()


async def an_empty_fan_out_completes_at_once(store: Store, kit: Kit) -> None:
    steps: Steps = {
        "list": {},
        "each": {"after": ["list"], "for_each": "steps.list.result"},
        "end": {"after": ["each"]},
    }
    flow = await FlowKit.stored(kit, steps)
    await flow.complete("list", [])
    assert await flow.words() == {"list": "completed", "each": "completed", "end": "pending"}
    assert await flow.result("each") == {"results": [], "completed": 0, "failed": 0}


async def a_failed_item_fails_its_fan_in_unless_failures_are_allowed(store: Store, kit: Kit) -> None:
    steps: Steps = {
        "strict": {"for_each": [1, 2]},
        "lax": {"for_each": [1, 2], "allow_failures": True},
        "after": {"after": {"strict": "failure"}, "parameters": {"got": {"$from": "steps.strict.results"}}},
    }
    flow = await FlowKit.stored(kit, steps)
    for key in ("strict", "lax"):
        first, second = await flow.items(key)
        await flow.fail(first)
        await flow.complete(second, "got it")
    assert await flow.words() == {"strict": "failed", "lax": "completed", "after": "pending"}
    for key in ("strict", "lax"):
        gathered = {"results": [None, "got it"], "completed": 1, "failed": 1, "reasons": {"0": "it broke"}}
        assert await flow.result(key) == gathered
    assert (await flow.steps())["strict"].reason == "1 of 2 items did not complete"
    assert await flow.parameters("after") == {"got": [None, "got it"]}
    assert len(await kit.second.dead_letters(10)) == 2, "of the items: the fan-in would say the same once more"


async def more_items_than_allowed_fail_the_step(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {}, "b": {"after": ["a"], "for_each": "steps.a.result", "max_items": 2}})
    await flow.complete("a", [1, 2, 3])
    assert (await flow.steps())["b"].reason == "for_each: 3 items, where at most 2 are taken"
    assert await flow.items("b") == []


async def what_is_no_list_is_not_fanned_out(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {}, "b": {"after": ["a"], "for_each": "steps.a.result"}})
    await flow.complete("a", {"x": 1})
    assert (await flow.steps())["b"].reason == "for_each: steps.a.result gives an object, not a list"


async def results_that_do_not_fit_are_left_out_and_counted(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"each": {"for_each": [1, 2, 3]}})
    size = flow_steps.MAX_GATHERED_BYTES // 2 - 10
    for task in await flow.items("each"):
        await flow.complete(task, "x" * size)
    found = await flow.result("each")
    assert [result and len(result) for result in found["results"]] == [size, size, None]
    assert (found["completed"], found["failed"], found["cut"]) == (3, 0, 1)


async def results_too_large_to_look_at_fail_the_step(store: Store, kit: Kit) -> None:
    steps: Steps = {key: {} for key in "abcde"} | {"z": {"after": list("abcde"), "when": "steps.a.result"}}
    flow = await FlowKit.stored(kit, steps)
    for key in "abcde":
        await flow.complete(key, "x" * (flow_steps.MAX_SEEN_BYTES // 5))
    assert "at most" in ((await flow.steps())["z"].reason or "")


async def a_fan_out_of_a_later_time_begins_then(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {"for_each": [1, 2], "due_at": kit.now + 5_000}, "b": {"after": ["a"]}})
    items = await flow.items("a")
    assert await kit.second.due_tasks(kit.now, 10) == []
    assert sorted(await kit.second.due_tasks(kit.later(5_000), 10)) == items


async def cancelling_every_member_ends_a_flow(store: Store, kit: Kit) -> None:
    steps: Steps = {"a": {}, "b": {"after": {"a": "always"}}, "c": {"for_each": [1, 2]}, "d": {"after": ["c"]}}
    flow = await FlowKit.stored(kit, steps)
    members = [*flow.tasks.values(), *await flow.items("c")]
    applied = await kit.cancel(*members)
    assert applied.after == dict.fromkeys(members, S.CANCELLED)
    assert set((await flow.words()).values()) == {"cancelled"}
    assert await kit.second.group_counts([flow.id]) == {flow.id: GroupCounts(cancelled=6)}


async def a_step_of_a_flow_is_not_retried_alone(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {}, "b": {"after": ["a"]}})
    await flow.fail("a")
    other = await kit.ended_failed()
    applied = await store.reopen_tasks([flow.tasks["a"], flow.tasks["b"], other], kit.now)
    assert applied.after == {other: S.PENDING}
    assert {refusal.code for refusal in applied.refused.values()} == {Code.PART_OF_FLOW}


async def a_resumed_flow_runs_again_what_ended_badly_and_keeps_what_completed(store: Store, kit: Kit) -> None:
    steps: Steps = {
        "a": {},
        "b": {"after": ["a"]},
        "c": {"after": ["b"]},
        "d": {"after": ["a", "c"]},
        "e": {"after": {"b": "failure"}},
        "skipped": {"after": ["a"], "when": "steps.a.result.no"},
    }
    flow = await FlowKit.stored(kit, steps)
    await flow.complete("a", {"n": 1})
    await flow.fail("b")
    await flow.complete("e")
    kit.later()
    applied = await flow.resume()
    assert applied.ready == {kit.lane.id: [flow.tasks["b"]]}
    found = await flow.steps()
    assert {key: (step.status.word, step.round, step.waits) for key, step in found.items()} == {
        "a": ("completed", 1, 0),
        "b": ("pending", 2, 0),
        "c": ("waiting", 2, 1),
        "d": ("waiting", 2, 1),
        "e": ("completed", 1, 0),
        "skipped": ("cancelled", 1, 0),
    }
    for key in "bcd":
        await flow.complete(key)
    assert (await flow.words()) == dict.fromkeys("abcde", "completed") | {"skipped": "cancelled"}
    assert (await flow.resume()).after == {}
    assert await kit.second.task_totals() == await kit.second.count_rows()


async def a_resumed_fan_out_runs_only_the_items_that_did_not_complete(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {"for_each": [1, 2, 3]}, "b": {"after": ["a"]}})
    first, second, third = await flow.items("a")
    await flow.complete(first, 1)
    await flow.fail(second)
    await flow.complete(third, 3)
    assert await flow.words() == {"a": "failed", "b": "cancelled"}
    applied = await flow.resume()
    assert applied.ready == {kit.lane.id: [second]}
    assert {key: (step.status.word, step.waits) for key, step in (await flow.steps()).items()} == {
        "a": ("waiting", 1),
        "b": ("waiting", 1),
    }
    await flow.complete(second, 2)
    assert await flow.words() == {"a": "completed", "b": "pending"}
    assert await flow.result("a") == {"results": [1, 2, 3], "completed": 3, "failed": 0}


async def a_flow_is_resumed_while_some_of_it_still_runs(store: Store, kit: Kit) -> None:
    steps: Steps = {"a": {}, "slow": {}, "both": {"after": ["a", "slow"]}, "each": {"for_each": [1, 2]}}
    flow = await FlowKit.stored(kit, steps)
    await flow.fail("a")
    first, second = await flow.items("each")
    await flow.fail(first)
    await flow.resume()
    found = await flow.steps()
    assert (found["both"].status, found["both"].waits) == (S.WAITING, 2)
    assert (found["each"].status, found["each"].waits) == (S.WAITING, 2)
    for what in ("slow", first, "a", second):
        await flow.complete(what)
    assert await flow.words() == {"a": "completed", "slow": "completed", "both": "pending", "each": "completed"}


async def a_step_cancelled_while_its_parents_run_waits_for_them_again_when_resumed(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {}, "b": {}, "both": {"after": ["a", "b"]}})
    await kit.cancel(flow.tasks["both"])
    await flow.fail("b")
    await flow.resume()
    step = (await flow.steps())["both"]
    assert (step.status, step.round, step.waits) == (S.WAITING, 2, 2)
    await flow.complete("a")
    assert (await flow.words())["both"] == "waiting"
    await flow.complete("b")
    assert (await flow.words())["both"] == "pending"


async def a_fan_out_cancelled_while_its_items_run_waits_for_them_again_when_resumed(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"each": {"for_each": [1, 2, 3]}})
    first, second, third = await flow.items("each")
    await kit.cancel(flow.tasks["each"], second)
    await flow.complete(third, 3)
    await flow.resume()
    step = (await flow.steps())["each"]
    assert (step.status, step.round, step.waits) == (S.WAITING, 2, 2)
    await flow.complete(second, 2)
    assert await flow.words() == {"each": "waiting"}
    await flow.complete(first, 1)
    assert await flow.words() == {"each": "completed"}
    assert await flow.result("each") == {"results": [1, 2, 3], "completed": 3, "failed": 0}


async def a_step_whose_input_could_not_be_had_is_looked_at_again_when_resumed(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {}, "b": {"after": ["a"], "parameters": {"n": {"$from": "steps.a.result"}}}})
    await flow.complete("a")
    assert (await flow.words())["b"] == "failed"
    await flow.resume()
    step = (await flow.steps())["b"]
    assert (step.status, step.round) == (S.FAILED, 2)
    assert len(await kit.second.dead_letters(10)) == 1


async def a_cancelled_flow_is_resumed(store: Store, kit: Kit) -> None:
    steps: Steps = {"a": {}, "b": {"after": ["a"]}, "c": {"after": ["b"], "for_each": "steps.a.result"}}
    flow = await FlowKit.stored(kit, steps)
    await flow.complete("a", [1, 2])
    await kit.cancel(*flow.tasks.values())
    await flow.resume()
    assert await flow.words() == {"a": "completed", "b": "pending", "c": "waiting"}
    await flow.complete("b")
    assert len(await flow.items("c")) == 2


async def two_who_resume_at_once_resume_once(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {}, "b": {}, "c": {"after": ["a", "b"]}, "each": {"for_each": [1, 2]}})
    for key in "ab":
        await flow.fail(key)
    for _ in range(3):
        for task in await flow.items("each"):
            await flow.fail(task)
        await asyncio.gather(flow.resume(), kit.second.resume_flow(flow.id, kit.now))
        found = await flow.steps()
        assert {key: (step.status.word, step.waits) for key, step in found.items()} == {
            "a": ("pending", 0),
            "b": ("pending", 0),
            "c": ("waiting", 2),
            "each": ("waiting", 2),
        }


async def no_step_waits_for_ever_when_a_flow_is_resumed_while_parents_end(store: Store, kit: Kit) -> None:
    for _ in range(ROUNDS):
        flow = await FlowKit.stored(kit, {"a": {}, "b": {}, "c": {"after": ["a", "b"]}})
        await flow.fail("a")
        await asyncio.gather(flow.complete("b"), kit.second.resume_flow(flow.id, kit.now))
        words = await flow.words()
        if words["a"] == "failed":
            await flow.resume()
        elif words["c"] == "cancelled":
            raise AssertionError("the parent runs again, and its child does not wait for it")
        await flow.complete("a")
        assert (await flow.words())["c"] == "pending"


async def two_parents_that_end_at_once_release_their_step_once(store: Store, kit: Kit) -> None:
    other = await kit.node()
    for number in range(ROUNDS):
        flow = await FlowKit.stored(
            kit, {"a": {}, "b": {}, "c": {"after": {"a": "always", "b": "success"}, "for_each": "steps.b.result"}}
        )
        (one,), (two,) = [await kit.assign([flow.tasks[key]], node) for key, node in (("a", flow.node), ("b", other))]
        await asyncio.gather(
            kit.fail(one),
            kit.second.complete_executions(
                [kit.outcome(two)._replace(result=msgspec.json.encode([number, 2]))], kit.now
            ),
        )
        assert (await flow.words())["c"] == "waiting"
        assert len(await flow.items("c")) == 2


async def items_that_end_at_once_gather_once(store: Store, kit: Kit) -> None:
    other = await kit.node()
    for _ in range(ROUNDS):
        flow = await FlowKit.stored(kit, {"a": {"for_each": [1, 2]}, "b": {"after": ["a"]}})
        items = await flow.items("a")
        runs = [(await kit.assign([task], node))[0] for task, node in zip(items, (flow.node, other), strict=True)]
        calls = [
            place.complete_executions([kit.outcome(run)._replace(result=b"1")], kit.now)
            for place, run in zip((store, kit.second), runs, strict=True)
        ]
        await asyncio.gather(*calls)
        assert await flow.words() == {"a": "completed", "b": "pending"}
        assert await flow.result("a") == {"results": [1, 1], "completed": 2, "failed": 0}


async def a_flow_that_is_cancelled_while_it_fans_out_is_cancelled(store: Store, kit: Kit) -> None:
    for _ in range(ROUNDS):
        flow = await FlowKit.stored(kit, {"a": {}, "b": {"after": ["a"], "for_each": "steps.a.result"}})
        steps = list(flow.tasks.values())
        (run,) = await kit.assign([flow.tasks["a"]], flow.node)
        await asyncio.gather(
            store.complete_executions([kit.outcome(run)._replace(result=b"[1, 2]")], kit.now),
            kit.second.change_tasks(steps, task_state_machine.cancel_task("its flow was cancelled"), kit.now),
        )
        await kit.cancel(*await flow.items("b"))
        assert (await flow.words())["b"] == "cancelled"
        assert not (await kit.second.group_counts([flow.id]))[flow.id].open


async def random_flows_end_as_their_edges_say_and_release_every_step_once(store: Store, kit: Kit) -> None:
    for _ in range(GRAPHS):
        graph = _graph(kit.rng)
        ends = {key: kit.rng.random() < 0.7 for key in graph}
        flow = await FlowKit.stored(kit, graph)
        while pending := await _pending(kit, flow):
            task, key = kit.rng.choice(pending)
            await (flow.complete(task, [1]) if ends[key] else flow.fail(task))
        found = await flow.steps()
        assert {key: _fate(step) for key, step in found.items()} == _expected(graph, ends)
        ready = [event.data["task"] for event in await kit.events() if event.kind == "task.ready"]
        for key, step in found.items():
            is_released = step.unrun is Unrun.NOT and "for_each" not in graph[key]
            assert ready.count(step.task) == is_released
        assert await kit.second.group_counts([flow.id]) == {flow.id: await kit.second.count_members(flow.id)}
    assert await kit.second.task_totals() == await kit.second.count_rows()


def _graph(rng: Random) -> Steps:
    graph: Steps = {}
    for number in range(rng.randint(2, 8)):
        parents = rng.sample(list(graph), min(len(graph), rng.randint(0, 3)))
        step: dict[str, Any] = {"after": {key: rng.choice(["success", "failure", "always"]) for key in parents}}
        if rng.random() < 0.3:
            step["when"] = rng.choice(["`true`", "`[]`"])
        if rng.random() < 0.3:
            step["for_each"] = [1] * rng.randint(0, 2)
        graph[f"s{number}"] = step
    return graph


async def _pending(kit: Kit, flow: FlowKit) -> list[tuple[int, str]]:
    sql = (
        "SELECT l.id, f.key FROM live l JOIN flow_step f ON f.task = l.id "
        "WHERE f.group_id = $1 AND l.status = 0 ORDER BY l.id"
    )
    return [(task, key) for task, key in await kit.second.engine.read(lambda tx: tx.fetch(sql, flow.id))]


def _fate(step: StepRecord) -> str:
    return step.unrun.word if step.unrun is not Unrun.NOT else step.status.word


def _expected(graph: Steps, ends: dict[str, bool]) -> dict[str, str]:
    """By the rules as people know them, not as they are written in the code."""
    fates: dict[str, str] = {}
    for key, step in graph.items():
        parents = [(on, fates[parent]) for parent, on in step["after"].items()]
        bad = ("failed", "broken")
        if any(on == "success" and fate in bad for on, fate in parents):
            fates[key] = "broken"
        elif (
            any(
                (on == "success" and fate == "skipped") or (on == "failure" and fate not in bad) for on, fate in parents
            )
            or step.get("when") == "`[]`"
        ):
            fates[key] = "skipped"
        else:
            fates[key] = "completed" if ends[key] or step.get("for_each") == [] else "failed"
    return fates


async def the_same_key_gives_the_same_flow(store: Store, kit: Kit) -> None:
    claim = Claim("flow:1", "key", b"one", kit.now + 1_000)
    first, second = [await FlowKit.drafted(kit, {"a": {}}) for _ in range(2)]
    assert (await first.add(claim)).is_replay is False
    async with kit.unchanged():
        again = await second.add(claim)
    assert (again.id, again.is_replay, again.applied.ready) == (first.id, True, {})
    with pytest.raises(IdempotencyMismatch):
        await second.add(claim._replace(body_hash=b"two"))


async def a_dropped_flow_leaves_no_trace(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {"for_each": [1]}, "b": {"after": {"a": "always"}}})
    members = [*flow.tasks.values(), *await flow.items("a")]
    await kit.cancel(*members)
    await store.drop_tasks(members, kit.now)
    assert await store.remove_group(flow.id)
    dump = await kit.dump()
    assert [dump[name] for name in ("task", "live", "done", "dependency", "flow_step", "task_group")] == [[]] * 6


async def a_parent_that_is_gone_did_not_complete(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {}, "b": {}, "c": {"after": ["a", "b"]}})
    await flow.complete("a")
    await store.drop_tasks([flow.tasks["a"]], kit.now)
    await flow.complete("b")
    step = (await flow.steps())["c"]
    assert (step.status, step.reason) == (S.CANCELLED, "step a, on which it depends, is gone")


async def an_ordinary_task_may_depend_on_a_step(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {"for_each": [1]}, "b": {"after": {"a": "failure"}}})
    child, other = [await kit.submit_one(parents=[flow.tasks[key]]) for key in "ab"]
    for task in await flow.items("a"):
        await flow.complete(task)
    assert (await kit.status(child), await kit.status(other)) == (S.PENDING, S.CANCELLED)
