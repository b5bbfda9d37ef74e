"""A master and six workers as processes of this machine, in a temporary folder, and nothing left when they stop."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from crawlfleet.client import Client

HERE = Path(__file__).resolve().parent
OWN_STRATEGY = HERE.parent / "own_strategy"
PATIENCE_S = 60.0
_POLL_S = 0.02
_STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class Machine:
    """What a worker is told about itself; names stand for places."""

    name: str
    region: str
    egress: str
    slots: int = 4
    cluster: str = "default"
    node_type: str = "standard"
    weight: float = 1
    cpu: float = 1
    memory_mb: float = 1024
    capabilities: Mapping[str, object] = field(default_factory=dict)

    def options(self) -> list[str]:
        return [
            "--device-id",
            self.name,
            "--name",
            self.name,
            "--region",
            self.region,
            "--cluster",
            self.cluster,
            "--node-type",
            self.node_type,
            "--slots",
            str(self.slots),
            "--weight",
            f"{self.weight:g}",
            "--resource",
            f"cpu={self.cpu:g}",
            "--resource",
            f"memory_mb={self.memory_mb:g}",
            "--egress-address",
            self.egress,
            *(f"--capability={name}={json.dumps(value)}" for name, value in self.capabilities.items()),
        ]


MACHINES = (
    # Two behind one address, as behind the proxy of one office.
    Machine(
        "frankfurt",
        "eu-central-1",
        "203.0.113.10",
        cluster="europe",
        capabilities={"country": "de", "price_per_hour": 0.12},
    ),
    Machine(
        "berlin",
        "berlin",
        "203.0.113.10",
        cluster="europe",
        weight=3,
        capabilities={"country": "de", "price_per_hour": 0.10},
    ),
    Machine(
        "paris",
        "eu-west-3",
        "203.0.113.20",
        cluster="europe",
        slots=2,
        capabilities={"country": "fr", "price_per_hour": 0.11, "pdf_reading": 1},
    ),
    Machine(
        "virginia",
        "us-east-1",
        "203.0.113.30",
        slots=16,
        node_type="large",
        cpu=32,
        memory_mb=65_536,
        capabilities={"country": "us", "price_per_hour": 0.90, "pdf_reading": 1},
    ),
    Machine(
        "tokyo",
        "tokyo",
        "203.0.113.40",
        cpu=8,
        memory_mb=16_384,
        capabilities={"country": "jp", "price_per_hour": 0.04, "proxy_rotation": 1},
    ),
    # Keeps to itself: whoever names no category goes elsewhere.
    Machine(
        "sydney",
        "ap-southeast-2",
        "203.0.113.50",
        slots=1,
        cluster="lab",
        capabilities={"country": "au", "price_per_hour": 0.05, "categories": ["news"]},
    ),
)


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client: Client
        self.url = ""
        self.token = ""
        self.site = ""
        self.names: dict[str, str] = {}
        """Of nodes, by their ids."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # What the person who takes the tour has set for an installation of their own is not for this one.
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("CRAWLFLEET_")}

    def start(self, tell: Callable[[str], None]) -> None:
        self._start_site()
        self._start_master(tell)
        token = self.client.create_token("enrol", uses=len(MACHINES)).token
        for machine in MACHINES:
            # Whatever runs when the tour ends need not be waited for.
            env = {"CRAWLFLEET_ENROL_TOKEN": token, "CRAWLFLEET_DRAIN_S": "0"}
            options = machine.options()
            self._command(machine.name, "worker", "--master", self.url, *options, env=env)
            tell(shlex.join(["crawlfleet", "worker", "--master", self.url, *options]))
        self.until(self._are_all_online, "not all workers are online")

    def _start_site(self) -> None:
        process = self._run("site", [str(HERE / "site.py")], stdout=subprocess.PIPE)
        assert process.stdout is not None
        self.site = f"http://127.0.0.1:{process.stdout.readline().decode().strip()}"

    def _start_master(self, tell: Callable[[str], None]) -> None:
        options = ["--port", "0", "--allow-host", "127.0.0.1"]
        self._command("master", "master", *options, env={"PYTHONPATH": self._with_own_strategy()})
        tell(f"crawlfleet master {' '.join(options)}")
        address, token = (self.folder / "master" / name for name in ("address", "admin.token"))
        self.until(lambda: address.exists() and token.exists(), "the master has not started")
        self.url = address.read_text().strip()
        self.token = token.read_text().strip()
        self.client = Client(self.url, self.token)
        self.until(self._is_ready, "the master is not ready")

    def _with_own_strategy(self) -> str:
        """The path on which masters find it, as `pip install examples/own_strategy` would leave it."""
        project = tomllib.loads((OWN_STRATEGY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        info = self.folder / "packages" / "cheapest_strategy-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
        ((group, points),) = project["entry-points"].items()
        lines = "".join(f"{name} = {value}\n" for name, value in points.items())
        (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")
        found = [str(info.parent), str(OWN_STRATEGY), self._env.get("PYTHONPATH", "")]
        return os.pathsep.join(part for part in found if part)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5):
                return True
        except OSError:
            return False

    def _are_all_online(self) -> bool:
        nodes = self.client.nodes(status="online")
        self.names = {node.id: node.name for node in nodes}
        return len(nodes) == len(MACHINES)

    def _command(self, name: str, *words: str, env: Mapping[str, str]) -> None:
        self._run(name, ["-m", "crawlfleet.cli", *words, "--data-dir", str(self.folder / name)], env)

    def _run(
        self, name: str, arguments: Sequence[str], env: Mapping[str, str] | None = None, stdout: int | None = None
    ) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            # A session of its own: Ctrl-C is for the tour, which then stops all of them.
            process = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout or log,
                stderr=log,
                env=self._env | {"PYTHONDONTWRITEBYTECODE": "1"} | dict(env or {}),
                start_new_session=True,
            )
        self._processes[name] = process
        return process

    def until(self, condition: Callable[[], bool], otherwise: str, within_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            ended = [name for name, process in self._processes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise TimeoutError(f"{otherwise} after {within_s:g} s{self._last_words(ended)}")
            time.sleep(_POLL_S)

    def _last_words(self, ended: Sequence[str]) -> str:
        logs = {name: (self.folder / f"{name}.log").read_text(errors="replace")[-2_000:] for name in ended}
        return "".join(f"\n{name} has ended:\n{log}" for name, log in logs.items())

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """The agent stands still, as on a machine that swaps."""
        process = self._processes[name]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Workers first, while there is a master to hear that they leave. What does not end is killed."""
        workers = [process for name, process in self._processes.items() if name != "master"]
        everything = list(self._processes.values())
        try:
            if hasattr(self, "client"):
                self.client.close()
            _terminate(workers)
            _terminate(everything)
        finally:
            for process in everything:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                if process.stdout is not None:
                    process.stdout.close()


def _terminate(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + _STOP_S
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


@contextmanager
def running_cluster(tell: Callable[[str], None]) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="crawlfleet-tour-") as folder:
        cluster = Cluster(Path(folder))
        try:
            cluster.start(tell)
            yield cluster
        finally:
            cluster.stop()
