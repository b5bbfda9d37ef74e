"""A device without an agent: it registers, beats, pulls tasks, runs and reports them, with the standard library alone.

    ENROL_TOKEN=... python device_client.py http://127.0.0.1:8800 till-7 --state till-7.json

It runs `echo` and `sleep`; put your own functions into RUNNERS. Ctrl-C hands back what it has.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import urllib.error
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RUNNERS = {
    "echo": lambda params, stop: params,
    "sleep": lambda params, stop: stop.wait(params["seconds"]),
}
"""What runs a task of each type: a function of its parameters, and of an event that is set when it has to stop."""


class Device:
    def __init__(self, master, device_id, state, slots, interval, timeout, runners):
        self.master, self.device_id, self.state, self.slots = master.rstrip("/"), device_id, state, slots
        self.interval, self.timeout, self.runners = interval, timeout, runners
        self.running, self.lock = {}, threading.Lock()  # the event that stops each task, by its id
        self.is_over, self.has_ended = threading.Event(), threading.Event()
        self.key = None

    def call(self, method, path, body=None, token=None, headers=None):
        """Return status and answer; what could not be sent, or found the master busy, is sent again."""
        headers = {"X-API-Key": token or self.key, "Content-Type": "application/json", **(headers or {})}
        data = None if body is None else json.dumps(body).encode()
        while True:
            request = urllib.request.Request(f"{self.master}/api/distribution/{path}", data, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=40) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as refusal:
                if refusal.code not in (429, 502, 503):
                    return refusal.code, json.loads(refusal.read() or b"{}")
            except OSError as error:
                print(f"{method} {path}: {error}", flush=True)
            if self.is_over.wait(1):
                return 0, {}

    def register(self, enrol_token):
        """Get a key, once. The id of the attempt is kept first: after a lost answer it is the same device."""
        kept = json.loads(self.state.read_text()) if self.state.exists() else {"attempt": uuid.uuid4().hex}
        if "api_key" not in kept:
            self.state.write_text(json.dumps(kept))
            body = {"device_id": self.device_id, "task_types": sorted(self.runners), "concurrent_tasks": self.slots}
            body |= {"heartbeat_interval": self.interval, "device_timeout": self.timeout}
            status, answer = self.call(
                "POST", "devices/register", body, enrol_token, {"Idempotency-Key": kept["attempt"]}
            )
            if status != 201:
                raise SystemExit(f"not registered: {answer.get('detail', status)}")
            kept["api_key"] = answer["api_key"]
            self.state.write_text(json.dumps(kept))
        self.key = kept["api_key"]

    def beat(self):
        while not self.is_over.is_set():
            active = {"active_tasks": list(self.running)}
            _, answer = self.call("POST", f"devices/{self.device_id}/heartbeat", active)
            for task_id in [order["task_id"] for order in answer.get("cancel", [])] + answer.get("stale", []):
                if (stop := self.running.get(task_id)) is not None:
                    stop.set()
            self.is_over.wait(answer.get("next_heartbeat_s", self.interval))

    def report(self, task, word, **more):
        path, body = f"tasks/{task['task_id']}/status", {"status": word, "execution_id": task["execution_id"], **more}
        status, answer = self.call("PUT", path, body)
        print(word, task["execution_id"], "accepted" if status == 200 else answer.get("code", status), flush=True)
        return status == 200

    def run(self, task, stop):
        try:
            if not self.report(task, "running"):
                return
            try:
                result = self.runners[task["task_type"]](task["params"], stop)
            except Exception as error:  # whatever a task does, the device goes on
                self.report(task, "failed", error_message=repr(error)[:2000])
                return
            if stop.is_set():
                self.report(task, "pending" if self.is_over.is_set() else "cancelled")
            else:
                self.report(task, "completed", result=result)
        finally:
            with self.lock:
                self.running.pop(task["task_id"], None)
            self.has_ended.set()

    def work(self):
        with ThreadPoolExecutor(self.slots) as pool:
            while not self.is_over.is_set():
                self.has_ended.clear()
                if (free := self.slots - len(self.running)) == 0:
                    self.has_ended.wait(1)
                    continue
                status, answer = self.call("GET", f"tasks/pull?device_id={self.device_id}&max_tasks={free}&wait_s=5")
                if status in (401, 403):
                    raise SystemExit(f"this key is not valid any more: {answer.get('detail')}")
                for task in answer.get("tasks", []):
                    stop = threading.Event()
                    with self.lock:
                        is_new = self.running.setdefault(task["task_id"], stop) is stop
                    if is_new:
                        pool.submit(self.run, task, stop)
                self.is_over.wait(answer.get("next_pull_s", 5))
            for stop in list(self.running.values()):
                stop.set()
        self.call("PUT", f"devices/{self.device_id}/status", {"status": "offline"})


def start(runners):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("master", help="the address of a master")
    parser.add_argument("device_id")
    parser.add_argument("--state", type=Path, default=Path("device.json"), help="file that keeps the device's key")
    parser.add_argument("--slots", type=int, default=2, help="tasks at a time")
    parser.add_argument("--interval", type=float, default=30, help="seconds between heartbeats")
    parser.add_argument("--timeout", type=float, default=300, help="seconds of silence that cost it its tasks")
    given = parser.parse_args()
    device = Device(**vars(given), runners=runners)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: device.is_over.set())
    device.register(os.environ.get("ENROL_TOKEN", ""))
    threading.Thread(target=device.beat, daemon=True).start()
    device.work()


if __name__ == "__main__":
    start(RUNNERS)
