"""The settings of an agent."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, TypeAdapter, model_validator

from crawlfleet.model import limits
from crawlfleet.settings.base import Settings, default_data_dir, setting
from crawlfleet.settings.master import MAX_WORKERS
from crawlfleet.settings.provenance import BadSetting, Source
from crawlfleet.settings.values import (
    Address,
    Amounts,
    Capabilities,
    Count,
    CrawlHosts,
    Factor,
    Folder,
    Label,
    LogFilePath,
    LogFormat,
    LogLevel,
    Modules,
    Port,
    Seconds,
    Secret,
    Urls,
)


def _worker_dir() -> Path:
    # Not the master's own folder: both may live on one machine under one user.
    return default_data_dir() / "worker"


class WorkerSettings(Settings):
    section: ClassVar[str] = "worker"

    masters: Urls = setting(..., about="Addresses of one or more masters, such as http://10.0.0.1:8000.", min_length=1)
    enrol_token: Secret | None = setting(None, about="The token with which a new node joins.", secret=True)
    enrol_token_file: Folder | None = setting(None, about="A file with that token.")
    executors: Modules = setting((), about="Python modules with your own executors.")
    device_id: Label | None = setting(None, about="A handle you choose: the same handle is the same node.")
    name: Label = setting(platform.node, about="The name people see.", shown="the machine's host name")
    description: str = setting("", about="A text for people.", max_length=limits.MESSAGE_CHARS)
    port: Port = setting(0, about="A port that people know the node by. The agent itself listens nowhere.")
    region: Annotated[str, AfterValidator(str.strip)] = setting(
        "", about="Where the node stands, such as us or cn-north.", max_length=limits.LABEL_CHARS
    )
    egress_address: Address = setting(
        "", about="The address that sites see, where it is another one than masters see: behind a proxy, say."
    )
    node_type: Label = setting("standard", about="A kind of node that tasks may ask for.")
    cluster: Label = setting("default", about="The cluster the node joins.")
    capabilities: Capabilities = setting(
        {}, about="What the node can do beside what it finds out itself: a number, a word, or a list of words each."
    )
    slots: Count = setting(
        lambda: os.cpu_count() or 1,
        about="Tasks that run at a time.",
        shown="the number of processors",
        ge=1,
        le=limits.SLOTS_MAX,
    )
    max_workers: Count = setting(64, about=MAX_WORKERS, ge=1, le=limits.WORKERS_MAX)
    weight: Factor = setting(1.0, about="Its share of the tasks by the strategy weighted.", gt=0, le=1_000)
    resources: Amounts = setting(
        {},
        about="What the node offers to tasks that reserve it, such as cpu=2,memory_mb=1000. With these two it has them "
        "for itself; without, agents of a machine share what the machine has.",
        shown="what the machine has",
    )
    data_dir: Folder = setting(
        _worker_dir,
        about="Where the node keeps its identity and what it could not report yet.",
        shown="~/.local/share/crawlfleet/worker",
    )
    allow_hosts: CrawlHosts = setting(
        (),
        about="Hosts, addresses or networks that crawls may visit on this node although they are private, loopback or "
        "link-local, beside what the cluster allows.",
    )
    proxies_file: Folder | None = setting(
        None, about="A file with the proxies that crawls may name by their pool: a pool's name and a URL on each line."
    )
    ca_file: Folder | None = setting(None, about="Certificates (PEM) to trust instead of the system's.")
    memory_limit_mb: Count | None = setting(
        None, about="Memory that one execution of a user's executor may take, if its task did not reserve more.", ge=16
    )
    drain_s: Seconds = setting(
        30.0, about="Seconds that running tasks may take to end when the agent is told to leave.", ge=0, le=86_400
    )
    log_level: LogLevel = setting(
        "info",
        about="The least important log lines that are written: debug, info, warning, error or critical.",
    )
    log_file: LogFilePath | None = setting(
        None,
        about="A file that log lines are appended to; it may be rotated at any time. Standard error gets errors only.",
        shown="standard error",
    )
    log_format: LogFormat = setting(
        "auto", about="Log lines for people (console), for programs (json), or by what reads them (auto)."
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.enrol_token and self.enrol_token_file:
            raise ValueError("enrol_token and enrol_token_file exclude each other")
        if ("cpu" in self.resources) != ("memory_mb" in self.resources):
            # With only one of them given, it is unknown which agent owns the rest, where several share a machine.
            raise ValueError("resources: cpu and memory_mb belong together: one of them is missing")
        for name in ("enrol_token_file", "proxies_file", "ca_file"):
            path: Path | None = getattr(self, name)
            if path is not None and not path.is_file():
                raise ValueError(f"{name}: there is no file {path}")
        return self

    def read_enrol_token(self) -> str | None:
        """Return the enrol token as given, or from its file. Raises BadSetting for a file without one."""
        if self.enrol_token_file is None:
            return self.enrol_token
        source = Source("file", str(self.enrol_token_file))
        try:
            return TypeAdapter(Secret).validate_python(self.enrol_token_file.read_text(encoding="utf-8"))
        except OSError as exc:
            raise BadSetting("enrol_token_file", f"cannot be read: {exc.strerror}", source) from exc
        except ValueError as exc:
            raise BadSetting("enrol_token_file", "holds no token", source) from exc
