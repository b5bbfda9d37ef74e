"""The life of a task, verb by verb."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.model.event import Kind
from crawlfleet.model.execution import End, Failure, Outcome
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import LIVE_STATUSES, ErrorClass, ExecutionStatus, Recall, TaskStatus, is_legal
from crawlfleet.model.task import DecideTransition, LiveTask, RetryPolicy, TaskTransition
from crawlfleet.scheduling.tasks import task_state_machine

NOW = 1_767_225_600_000
TASK, NODE, EXECUTION, SESSION, LANE = 1, 2, 3, 4, 5
S, X = TaskStatus, ExecutionStatus

WAITING = LiveTask(TASK, S.WAITING, LANE, 1, 0, 0, 0, 1, None, 60, Recall.NONE)
PENDING = WAITING._replace(status=S.PENDING, waits=0)
RETRYING = PENDING._replace(status=S.RETRYING, retries=1, due_at=NOW)
ASSIGNED = PENDING._replace(
    status=S.ASSIGNED, node=NODE, session=SESSION, execution=EXECUTION, assigned_at=NOW, deadline_at=NOW + 130_000
)
PROCESSING = ASSIGNED._replace(status=S.PROCESSING, started_at=NOW, deadline_at=NOW + 70_000)
HELD = [ASSIGNED, PROCESSING]
NOT_HELD = [WAITING, PENDING, RETRYING]
STRONG = Failure(ErrorClass.INPUT, "no such page")
WEAK = Failure(ErrorClass.NETWORK, "reset")


def step(decide: DecideTransition, row: LiveTask, policy: RetryPolicy | None = None) -> TaskTransition:
    decided = decide(row, policy or RetryPolicy())
    assert isinstance(decided, TaskTransition), decided
    return decided


def refusal(decide: DecideTransition, row: LiveTask) -> Refusal:
    decided = decide(row, RetryPolicy())
    assert isinstance(decided, Refusal), decided
    return decided


def finish(
    end: End, failure: Failure | None = None, *, node: int = NODE, execution: int = EXECUTION
) -> DecideTransition:
    outcome = Outcome(node, TASK, execution, end, failure, b"result", b"metrics", NOW - 5)
    return task_state_machine.finish_execution({TASK: outcome}, NOW, Random(1))


def assert_off_its_node(row: LiveTask) -> None:
    assert (row.node, row.session, row.execution, row.recall) == (0, 0, 0, Recall.NONE)
    assert (row.assigned_at, row.started_at, row.deadline_at) == (None, None, None)


@pytest.mark.parametrize("row", NOT_HELD)
def test_cancelling_what_no_node_holds_is_final(row: LiveTask) -> None:
    cancelled = step(task_state_machine.cancel_task("no"), row)
    assert (cancelled.after.status, cancelled.kind, cancelled.reason) == (S.CANCELLED, Kind.TASK_CANCELLED, "no")
    assert cancelled.ended is None


@pytest.mark.parametrize("row", HELD)
def test_cancelling_what_a_node_holds_asks_the_node(row: LiveTask) -> None:
    asked = step(task_state_machine.cancel_task("no"), row)
    assert (asked.after, asked.kind) == (row._replace(recall=Recall.CANCEL), Kind.TASK_RECALLED)
    assert asked.ended is None


def test_a_cancel_outranks_every_other_recall_and_none_outranks_it() -> None:
    moving = ASSIGNED._replace(recall=Recall.MOVE)
    assert step(task_state_machine.cancel_task("no"), moving).after.recall is Recall.CANCEL
    cancelled = ASSIGNED._replace(recall=Recall.CANCEL)
    for why in (Recall.DEADLINE, Recall.PREEMPT, Recall.MOVE):
        assert step(task_state_machine.recall_execution(why, "x"), cancelled).after == cancelled


@pytest.mark.parametrize("row", NOT_HELD)
@pytest.mark.parametrize(
    "verb",
    [
        task_state_machine.recall_execution(Recall.MOVE, "x"),
        task_state_machine.lose_execution("x", NOW, Random(1)),
        task_state_machine.return_execution("x", NOW, Random(1)),
    ],
)
def test_what_no_node_holds_cannot_be_taken_from_one(verb: DecideTransition, row: LiveTask) -> None:
    assert refusal(verb, row).code is Code.ILLEGAL_TRANSITION


def test_only_what_is_past_its_deadline_is_overdue() -> None:
    assert PROCESSING.deadline_at is not None
    assert refusal(task_state_machine.recall_overdue(PROCESSING.deadline_at - 1), PROCESSING).code is Code.NOT_READY
    assert step(task_state_machine.recall_overdue(PROCESSING.deadline_at), PROCESSING).after.recall is Recall.DEADLINE
    assert refusal(task_state_machine.recall_overdue(NOW), PENDING).code is Code.NOT_READY


def test_a_task_is_released_when_its_time_has_come_and_no_parent_is_open() -> None:
    timed = WAITING._replace(waits=0, due_at=NOW)
    released = step(task_state_machine.release_due(NOW), timed)
    assert (released.after.status, released.after.due_at, released.kind) == (S.PENDING, None, Kind.TASK_READY)
    assert refusal(task_state_machine.release_due(NOW - 1), timed).code is Code.NOT_READY
    assert refusal(task_state_machine.release_due(NOW), timed._replace(waits=1)).code is Code.NOT_READY
    assert step(task_state_machine.release_due(NOW), RETRYING).after.status is S.PENDING


@pytest.mark.parametrize("row", [PENDING, *HELD])
def test_what_does_not_wait_is_not_released(row: LiveTask) -> None:
    assert refusal(task_state_machine.release_due(NOW), row).code is Code.NOT_READY


def test_the_last_parent_releases_a_child() -> None:
    child = WAITING._replace(waits=3)
    assert step(task_state_machine.count_completed_parents(NOW, 2), child).after == child._replace(waits=1)
    assert step(task_state_machine.count_completed_parents(NOW, 3), child).after.status is S.PENDING


def test_a_child_of_a_later_time_waits_on() -> None:
    child = WAITING._replace(due_at=NOW + 1)
    assert step(task_state_machine.count_completed_parents(NOW, 1), child).after == child._replace(waits=0)


def test_a_start_makes_it_processing_with_its_deadline() -> None:
    started = step(
        task_state_machine.start_execution({TASK: task_state_machine.ExecutionStart(NODE, EXECUTION, NOW)}), ASSIGNED
    )
    assert (started.after.status, started.after.started_at) == (S.PROCESSING, NOW)
    assert started.after.deadline_at == NOW + 60_000 + 10_000


@pytest.mark.parametrize("row", [*NOT_HELD, *HELD])
@pytest.mark.parametrize(
    "verb",
    [
        lambda n, e: task_state_machine.start_execution({TASK: task_state_machine.ExecutionStart(n, e, NOW)}),
        lambda n, e: finish(End.COMPLETED, node=n, execution=e),
        lambda n, e: finish(End.FAILED, node=n, execution=e),
    ],
)
def test_a_stale_or_foreign_execution_changes_nothing(
    verb: Callable[[int, int], DecideTransition], row: LiveTask
) -> None:
    assert refusal(verb(NODE, EXECUTION + 1), row).code is Code.STALE_EXECUTION
    if row.status.is_held:
        assert refusal(verb(NODE + 1, EXECUTION), row).code is Code.WRONG_NODE


@pytest.mark.parametrize("row", HELD)
@pytest.mark.parametrize("recall", list(Recall))
def test_a_completed_outcome_outranks_every_recall(row: LiveTask, recall: Recall) -> None:
    done = step(finish(End.COMPLETED), row._replace(recall=recall))
    assert (done.after.status, done.ended) == (S.COMPLETED, X.COMPLETED)
    assert (done.result, done.metrics) == (b"result", b"metrics")


def test_the_start_told_with_the_outcome_counts_when_there_was_no_other() -> None:
    assert step(finish(End.COMPLETED), ASSIGNED).started_at == NOW - 5
    assert step(finish(End.COMPLETED), PROCESSING).started_at == NOW
    assert step(finish(End.FAILED, WEAK), ASSIGNED).started_at == NOW - 5


def test_a_weak_error_is_tried_again_and_costs_a_retry() -> None:
    again = step(finish(End.FAILED, WEAK), PROCESSING)
    assert (again.after.status, again.after.retries, again.ended) == (S.RETRYING, 1, X.FAILED)
    assert again.after.due_at is not None
    assert again.after.due_at > NOW
    assert not again.is_dead_letter
    assert_off_its_node(again.after)


@pytest.mark.parametrize("failure", [STRONG, Failure(ErrorClass.NETWORK, "gone", is_permanent=True)])
def test_a_strong_error_is_a_dead_letter_at_once(failure: Failure) -> None:
    dead = step(finish(End.FAILED, failure), PROCESSING)
    assert (dead.after.status, dead.ended, dead.is_dead_letter) == (S.FAILED, X.FAILED, True)
    assert dead.reason == failure.message


def test_out_of_retries_is_a_dead_letter() -> None:
    worn = PROCESSING._replace(retries=3)
    dead = step(finish(End.FAILED, WEAK), worn, RetryPolicy(3))
    assert (dead.after.status, dead.is_dead_letter) == (S.FAILED, True)


def test_a_failure_without_a_word_is_an_internal_error() -> None:
    assert step(finish(End.FAILED), PROCESSING).failure == Failure(ErrorClass.INTERNAL, "failed without saying why")


def test_a_timeout_is_tried_again_and_ends_as_timeout() -> None:
    assert step(finish(End.TIMED_OUT), PROCESSING).after.status is S.RETRYING
    last = step(finish(End.TIMED_OUT), PROCESSING, RetryPolicy(0))
    assert (last.after.status, last.kind, last.ended) == (S.TIMEOUT, Kind.TASK_TIMEOUT, X.TIMEOUT)
    assert last.is_dead_letter


@pytest.mark.parametrize(
    ("recall", "status", "ended"),
    [
        (Recall.NONE, S.PENDING, X.LOST),
        (Recall.CANCEL, S.CANCELLED, X.CANCELLED),
        (Recall.DEADLINE, S.RETRYING, X.TIMEOUT),
        (Recall.PREEMPT, S.PENDING, X.PREEMPTED),
        (Recall.MOVE, S.PENDING, X.RETURNED),
    ],
)
@pytest.mark.parametrize("verb", [finish(End.STOPPED), task_state_machine.lose_execution("lost", NOW, Random(1))])
def test_a_stopped_execution_ends_as_its_recall_asked(
    verb: DecideTransition, recall: Recall, status: TaskStatus, ended: ExecutionStatus
) -> None:
    stopped = step(verb, PROCESSING._replace(recall=recall))
    assert (stopped.after.status, stopped.ended) == (status, ended)


@pytest.mark.parametrize("end", [End.FAILED, End.TIMED_OUT])
def test_a_failure_after_a_cancel_is_cancelled(end: End) -> None:
    cancelled = step(finish(end, WEAK), PROCESSING._replace(recall=Recall.CANCEL))
    assert cancelled.after.status is S.CANCELLED
    assert not cancelled.is_dead_letter


def test_a_lost_node_or_process_counts_as_a_loss_and_costs_no_retry() -> None:
    for verb in (task_state_machine.lose_execution("lost", NOW, Random(1)), finish(End.PROCESS_LOST)):
        lost = step(verb, PROCESSING._replace(retries=2))
        assert (lost.after.status, lost.after.losses, lost.after.retries) == (S.PENDING, 1, 2)
        assert lost.kind is Kind.TASK_REASSIGN
        assert_off_its_node(lost.after)


@pytest.mark.parametrize(
    ("verb", "ended"),
    [
        (finish(End.RETURNED), X.RETURNED),
        (task_state_machine.return_execution("drained", NOW, Random(1)), X.RETURNED),
        (finish(End.STOPPED), X.LOST),
    ],
)
def test_work_handed_back_costs_nothing(verb: DecideTransition, ended: ExecutionStatus) -> None:
    back = step(verb, PROCESSING)
    assert (back.after.status, back.after.losses, back.after.retries, back.ended) == (S.PENDING, 0, 0, ended)


def test_after_two_losses_or_one_death_it_runs_alone() -> None:
    assert not task_state_machine.needs_own_process(PENDING._replace(losses=1))
    assert task_state_machine.needs_own_process(PENDING._replace(losses=2))
    assert task_state_machine.needs_own_process(PENDING._replace(deaths=1))


def test_three_deaths_alone_are_poison() -> None:
    row, policy = PROCESSING, RetryPolicy(0)
    for deaths in (1, 2):
        died = step(finish(End.DIED_ALONE), row, policy)
        assert (died.after.status, died.after.deaths, died.after.retries) == (S.RETRYING, deaths, 0)
        row = PROCESSING._replace(deaths=died.after.deaths)
    poison = step(finish(End.DIED_ALONE), row, policy)
    assert (poison.after.status, poison.after.deaths, poison.is_dead_letter) == (S.FAILED, 3, True)
    assert poison.reason is not None
    assert poison.reason.startswith("poison")


def test_a_death_after_a_cancel_is_cancelled() -> None:
    assert step(finish(End.DIED_ALONE), PROCESSING._replace(recall=Recall.CANCEL)).after.status is S.CANCELLED


@pytest.mark.parametrize("row", [*NOT_HELD, *HELD])
def test_a_new_priority_is_another_lane(row: LiveTask) -> None:
    assert step(task_state_machine.change_lane({LANE: 99}), row).after == row._replace(lane=99)
    assert refusal(task_state_machine.change_lane({7: 99}), row).code is Code.NOT_READY


@st.composite
def rows(draw: st.DrawFn) -> LiveTask:
    """Any live row the store can hold."""
    status = draw(st.sampled_from(LIVE_STATUSES))
    row = PENDING._replace(
        status=status,
        retries=draw(st.integers(0, 5)),
        losses=draw(st.integers(0, 5)),
        deaths=draw(st.integers(0, 2)),
        round=draw(st.integers(1, 3)),
        timeout_s=draw(st.integers(1, 86_400)),
    )
    if status is S.WAITING:
        row = row._replace(waits=draw(st.integers(0, 3)))
    if status is S.RETRYING or (status is S.WAITING and (not row.waits or draw(st.booleans()))):
        row = row._replace(due_at=NOW + draw(st.integers(-1_000, 1_000)))
    if status.is_held:
        row = row._replace(
            node=draw(st.sampled_from([NODE, NODE + 1])),
            session=SESSION,
            assigned_at=NOW - 1_000,
            execution=draw(st.sampled_from([EXECUTION, EXECUTION + 1])),
            recall=draw(st.sampled_from(Recall)),
            deadline_at=NOW + draw(st.integers(-1_000, 1_000)),
        )
    if status is S.PROCESSING:
        row = row._replace(started_at=NOW - 500)
    return row


policies = st.builds(RetryPolicy, st.integers(0, 5), st.floats(0, 10), st.floats(0, 100))
failures = st.none() | st.builds(Failure, st.sampled_from(ErrorClass), st.text(max_size=5), st.booleans())
outcomes = st.builds(
    Outcome,
    st.just(NODE),
    st.just(TASK),
    st.just(EXECUTION),
    st.sampled_from(End),
    failures,
    st.none() | st.binary(),
    st.none() | st.binary(),
    st.none() | st.just(NOW - 100),
    products=st.just(()),
)
finishes = outcomes.map(lambda outcome: task_state_machine.finish_execution({TASK: outcome}, NOW, Random(1)))
verbs = st.one_of(
    finishes,
    st.builds(task_state_machine.cancel_task, st.text(max_size=3)),
    st.builds(
        task_state_machine.recall_execution,
        st.sampled_from([why for why in Recall if why is not Recall.NONE]),
        st.just("x"),
    ),
    st.just(task_state_machine.recall_overdue(NOW)),
    st.just(task_state_machine.release_due(NOW)),
    st.just(task_state_machine.change_lane({LANE: 99})),
    st.just(task_state_machine.start_execution({TASK: task_state_machine.ExecutionStart(NODE, EXECUTION, NOW)})),
    st.just(task_state_machine.lose_execution("x", NOW, Random(1))),
    st.just(task_state_machine.return_execution("x", NOW, Random(1))),
)


@given(rows(), policies, verbs)
def test_every_verb_takes_a_legal_step_or_refuses(row: LiveTask, policy: RetryPolicy, verb: DecideTransition) -> None:
    decided = verb(row, policy)
    if isinstance(decided, TaskTransition):
        after = decided.after
        assert after.status is row.status or is_legal(row.status, after.status)
        assert (after.id, after.round, after.timeout_s) == (row.id, row.round, row.timeout_s)


@given(rows(), policies, verbs)
def test_an_execution_ends_exactly_when_its_task_leaves_the_node(
    row: LiveTask, policy: RetryPolicy, verb: DecideTransition
) -> None:
    decided = verb(row, policy)
    if isinstance(decided, TaskTransition):
        leaves = row.status.is_held and not decided.after.status.is_held
        assert (decided.ended is not None) == leaves
        if leaves and not decided.after.status.is_final:
            assert_off_its_node(decided.after)


@given(rows(), policies, verbs)
def test_no_verb_gives_more_retries_than_the_policy(row: LiveTask, policy: RetryPolicy, verb: DecideTransition) -> None:
    decided = verb(row, policy)
    if isinstance(decided, TaskTransition):
        assert decided.after.retries <= max(row.retries, policy.max_retries)
        assert decided.after.retries - row.retries in (0, 1)


@given(rows(), policies, verbs)
def test_a_loss_never_costs_a_retry_and_a_retry_is_never_a_loss(
    row: LiveTask, policy: RetryPolicy, verb: DecideTransition
) -> None:
    decided = verb(row, policy)
    if isinstance(decided, TaskTransition):
        spent = (
            decided.after.retries - row.retries,
            decided.after.losses - row.losses,
            decided.after.deaths - row.deaths,
        )
        assert sum(spent) in (0, 1)
        assert min(spent) == 0


@given(rows(), policies, st.sampled_from([End.RETURNED, End.STOPPED, End.PROCESS_LOST]))
def test_what_is_nobodys_fault_never_ends_a_task(row: LiveTask, policy: RetryPolicy, end: End) -> None:
    decided = finish(end)(row._replace(recall=Recall.NONE), policy)
    if isinstance(decided, TaskTransition):
        assert decided.after.status is S.PENDING


@given(rows(), policies, verbs)
def test_only_three_deaths_alone_are_poison(row: LiveTask, policy: RetryPolicy, verb: DecideTransition) -> None:
    decided = verb(row, policy)
    if isinstance(decided, TaskTransition) and (decided.reason or "").startswith("poison"):
        assert decided.after.deaths == task_state_machine.POISON_DEATHS
        assert decided.is_dead_letter


@given(rows(), policies, verbs)
def test_a_dead_letter_is_failed_or_timed_out_and_says_why(
    row: LiveTask, policy: RetryPolicy, verb: DecideTransition
) -> None:
    decided = verb(row, policy)
    if isinstance(decided, TaskTransition):
        assert decided.is_dead_letter == (decided.after.status in (S.FAILED, S.TIMEOUT))
        assert not decided.is_dead_letter or decided.failure is not None


@given(rows(), policies, finishes, finishes)
def test_of_two_outcomes_of_one_execution_the_second_finds_nothing_to_change(
    row: LiveTask, policy: RetryPolicy, first: DecideTransition, second: DecideTransition
) -> None:
    decided = first(row, policy)
    if isinstance(decided, TaskTransition) and not decided.after.status.is_final:
        assert isinstance(second(decided.after, policy), Refusal)
