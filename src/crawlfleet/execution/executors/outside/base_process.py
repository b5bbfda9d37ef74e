"""The base of executor processes as the agent sees them: the connection, and the grants of target hosts."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from crawlfleet.execution.budget.host_gate import ProcessShare
from crawlfleet.execution.budget.host_grants import HostGrants
from crawlfleet.execution.executors.outside.running_execution import RunningExecution
from crawlfleet.execution.executors.outside.spawn import connect_frames
from crawlfleet.execution.executors.protocol import (
    ExtendGrants,
    FrameConnection,
    GrantsInEffect,
    HostMessage,
    HostNoteReport,
    HostUsageReport,
    ProcessConfig,
    ProcessGrants,
    ToAgent,
    ToProcess,
)

LAST_READ_S = 0.3
"""How long messages of a process that has ended are still read."""


class ExecutorProcess:
    """Implements `budget.host_grants.GrantedProcess`."""

    def __init__(self, grants: HostGrants | None) -> None:
        self._grants = grants
        self._frames: FrameConnection | None = None
        self._why = ""
        """Why the agent killed the process; empty when it did not."""

    def send_grants(self, version: int, until: float, shares: Sequence[ProcessShare]) -> None:
        self._send(ProcessGrants(version, until, list(shares)))

    def extend_grants(self, until: float) -> None:
        self._send(ExtendGrants(until))

    async def _connect(self, sock: socket.socket, number: int, config: ProcessConfig) -> None:
        """Connect to the process, send its configuration, and grant it hosts under its number."""
        self._frames = await connect_frames(sock, self._handle_messages, self._on_disconnect)
        self._frames.send(config)
        if self._grants is not None:
            self._grants.add_process(number, self)

    def _send(self, message: ToProcess, size: int = 0) -> None:
        if self._frames is not None:
            self._frames.send(message, size)

    def _send_start(self, execution: RunningExecution) -> None:
        start = execution.start_message
        self._send(start, len(start.parameters))
        execution.send = self._send

    def _apply_host_message(self, number: int, message: HostMessage) -> None:
        """Pass a message about target hosts to the grants; also one sent before its execution ended."""
        if self._grants is None:
            return
        match message:
            case HostUsageReport():
                self._grants.record_usage(number, message.hosts)
            case GrantsInEffect():
                self._grants.acknowledge_grants(number, message.version, message.pending, message.used)
            case HostNoteReport():
                self._grants.record_host_note(message.host, message.kind, message.span_ms)

    def _handle_messages(self, messages: list[ToAgent] | list[ToProcess]) -> None:
        raise NotImplementedError

    def _on_disconnect(self) -> None:
        raise NotImplementedError
