"""`python -m testkit.chaos --seed 1` runs the chaos test: a line per fault and per violation, and an exit code."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from testkit.chaos import namespaces
from testkit.chaos.namespaces import Namespaces
from testkit.chaos.network import Network
from testkit.chaos.plan import random_plan, rolling_plan
from testkit.chaos.proxies import Proxies
from testkit.chaos.run import DUMP, Scenario, Shape, run

SHOWN = 50
ROLLING_DOWN_S = 1.0


def main() -> int:
    args = _arguments()
    if args.network != "proxies" and not namespaces.has_own_network() and namespaces.are_namespaces_allowed():
        namespaces.restart_in_own_network()
    if args.network == "namespaces" and not namespaces.has_own_network():
        _say("error: this machine gives no network namespaces\nhint: --network proxies")
        return 2
    network: Network = Namespaces() if namespaces.has_own_network() else Proxies()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="crawlfleet-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        violations = asyncio.run(run(_scenario(args), network, folder, _say))
    except BaseException:
        _say(f"seed {args.seed}: the run broke off; logs are in {folder}\nagain: {_again(args)}")
        raise
    for violation in violations[:SHOWN]:
        _say(f"VIOLATION {violation}")
    if not violations:
        _say(f"seed {args.seed}: all holds")
        if args.folder is None:
            shutil.rmtree(folder)
        return 0
    _say(f"seed {args.seed}: {len(violations)} violations; logs and {DUMP} are in {folder}")
    _say(f"again: {_again(args)}")
    return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description="Run a real cluster under faults.")
    parser.add_argument("--seed", type=int, default=1, help="what the faults and the load follow from (default 1)")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long there are faults (default 600)")
    parser.add_argument(
        "--scenario",
        choices=("random", "rolling"),
        default="random",
        help="faults of every kind (default), or each master killed in turn under a given number of tasks",
    )
    parser.add_argument("--rate", type=float, default=20.0, help="tasks a second (default 20)")
    parser.add_argument("--tasks", type=int, default=2_000, help="of the rolling scenario (default 2000)")
    parser.add_argument("--every", type=float, default=20.0, help="seconds between its kills (default 20)")
    parser.add_argument(
        "--network", choices=("auto", "namespaces", "proxies"), default="auto", help="how the network is cut"
    )
    parser.add_argument("--folder", type=Path, help="for logs; kept (default: a new one, removed when all holds)")
    return parser.parse_args()


def _scenario(args: argparse.Namespace) -> Scenario:
    shape = Shape()
    if args.scenario == "rolling":
        plan = rolling_plan(args.every, ROLLING_DOWN_S, shape.master_names, args.seconds)
        return Scenario(args.seed, args.seconds, plan, shape, batch=args.tasks)
    plan = random_plan(args.seed, args.seconds, shape.worker_names)
    return Scenario(args.seed, args.seconds, plan, shape, rate=args.rate)


def _again(args: argparse.Namespace) -> str:
    rolling = f" SCENARIO=rolling TASKS={args.tasks} EVERY={args.every:g}" if args.scenario == "rolling" else ""
    return f"make chaos SEED={args.seed} SECONDS={args.seconds:g} RATE={args.rate:g}{rolling}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
