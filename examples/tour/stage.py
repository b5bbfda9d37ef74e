"""What the chapters have in common: submit, see where it went, clear away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from crawlfleet.client import FINAL_STATUSES, ApiError, Client, Why

from .cluster import MACHINES, PATIENCE_S, Cluster
from .narrator import Differs, Narrator, submit_command

LONG_S = 300
"""Of tasks that only hold a place: they are cancelled when the scene is over."""
_MACHINES = {machine.name: machine for machine in MACHINES}


def only(node: str) -> dict[str, Any]:
    """The fields of a task that runs on this node and on no other."""
    machine = _MACHINES[node]
    offered = machine.capabilities.get("categories")
    return {"target_region": machine.region, "require_region": True} | ({"categories": offered} if offered else {})


class Stage:
    def __init__(self, cluster: Cluster, tell: Narrator) -> None:
        self.cluster = cluster
        self.client: Client = cluster.client
        self.site = cluster.site
        self.tell = tell
        self._open: list[str] = []

    @contextmanager
    def scene(self, text: str) -> Iterator[None]:
        """Whatever was submitted in it is gone afterwards."""
        self.tell.step(text)
        before, self._open = self._open, []
        try:
            yield
        finally:
            self.clear()
            self._open = before

    def clear(self) -> None:
        tasks, self._open = self._open, []
        if tasks:
            self.client.cancel_many(ids=tasks)
            self.client.wait(tasks, timeout=PATIENCE_S, with_results=False)

    # -- submitting

    def submit(self, task_type: str, parameters: Mapping[str, Any] | None = None, **fields: Any) -> str:
        self.tell.command(submit_command(task_type, parameters or {}, fields))
        return self.note(self.client.submit(task_type, parameters or {}, **fields).id)

    def hold(self, count: int = 1, **fields: Any) -> list[str]:
        """Tasks that stay where they are placed."""
        parameters = {"seconds": LONG_S}
        self.tell.command(submit_command("sleep", parameters, fields), count)
        tasks = [{"task_type": "sleep", "parameters": parameters, **fields}] * count
        return [self.note(task.id) for task in self.client.submit_batch(tasks)]

    def note(self, task: str) -> str:
        self._open.append(task)
        return task

    # -- looking

    def until(self, condition: Callable[[], bool], otherwise: str, within_s: float = PATIENCE_S) -> None:
        """Raises Differs when it does not come about."""
        try:
            self.cluster.until(condition, otherwise, within_s)
        except TimeoutError as exc:
            raise Differs(str(exc)) from exc

    def until_status(self, tasks: list[str], status: str) -> None:
        def have_it() -> bool:
            found = {task: self.client.get(task).status for task in tasks}
            ended = {one for one in found.values() if one in FINAL_STATUSES and one != status}
            if ended:
                raise Differs(f"tasks that should be {status} are {', '.join(sorted(ended))}")
            return set(found.values()) == {status}

        self.until(have_it, f"not all tasks are {status}")

    def until_why(self, task: str, cause: str, words: str = "") -> Why:
        """What it says, once it says that."""
        said: list[Why] = []

        def says_it() -> bool:
            said.append(self.client.why(task))
            return said[-1].data["cause"] == cause and words in said[-1].sentence

        try:
            self.until(says_it, f"why does not say {cause} {words}")
        except Differs as exc:
            raise Differs(f"{exc}; it says: {said[-1].sentence}") from exc
        return said[-1]

    def nodes_of(self, tasks: list[str]) -> list[str]:
        """Where they run, once they do."""
        self.until_status(tasks, "processing")
        return [self.cluster.names[str(self.client.get(task).assigned_node)] for task in tasks]

    def why(self, task: str) -> Why:
        said = self.client.why(task)
        self.tell.command(f"crawlfleet task why {task}")
        self.tell.note(said.sentence)
        return said

    def refused(self, status: int, call: Callable[[], object]) -> None:
        """The call must be answered with this status."""
        try:
            call()
        except ApiError as refusal:
            self.tell.note(str(refusal))
            self.tell.check(status, refusal.status, "answered with")
        else:
            self.tell.check(status, "success", "answered with")

    def chosen(self, expected: str, **fields: Any) -> str:
        """A task of which the strategy decides where it runs: it must be this node."""
        (task,) = self.hold(**fields)
        (node,) = self.nodes_of([task])
        self.why(task)
        self.tell.check(expected, node, "chosen")
        return task
