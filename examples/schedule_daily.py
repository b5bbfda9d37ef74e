"""A task by cron, looked at before it is made, and run once by hand.

CRAWLFLEET_DATA_DIR=./fleet python schedule_daily.py
"""

from __future__ import annotations

from crawlfleet.client import ApiError, Client


def main() -> None:
    task = {"task_type": "echo", "parameters": {"hello": "every night"}, "project_id": "example"}
    with Client() as client:
        schedule = client.create_schedule(
            task, cron="30 2 * * *", time_zone="Europe/Berlin", name="nightly", overlap="queue", catch_up="one"
        )
        print(schedule.status, len(schedule.next_runs or []), "runs to come")

        ran = client.run_schedule(schedule.id)
        (done,) = client.wait([ran.id], timeout=60)
        print("by hand:", done.status, done.result.data if done.result is not None else done.error)

        try:
            client.create_schedule(task, cron="0 0 30 2 *")
        except ApiError as exc:
            print("refused:", exc.status, exc.error_code, exc.field)

        print("paused:", client.pause_schedule(schedule.id).next_run_at)
        client.remove_schedule(schedule.id)


if __name__ == "__main__":
    main()
