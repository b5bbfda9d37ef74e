"""What each error code means and what to do about it, for docs/errors.md. A code that is missing here stops it."""

from __future__ import annotations

from typing import NamedTuple


class Meaning(NamedTuple):
    what: str
    to_do: str


MEANINGS: dict[str, Meaning] = {
    "malformed": Meaning("The body cannot be read: no JSON, not UTF-8, nested too deep.", "Mend the body."),
    "head_timeout": Meaning(
        "The head of the request was not complete within `head_timeout_s` (10 s).", "Send it at once; look at the line."
    ),
    "head_too_large": Meaning(
        "The request line and the headers have more than `head_limit_bytes` (32,768) bytes, or there are over 128 "
        "headers.",
        "Send fewer headers and a shorter query.",
    ),
    "not_authenticated": Meaning(
        "No token, or one that is unknown, expired, used up or revoked; which of these is not told.",
        "Send `Authorization: Bearer TOKEN` or `X-API-Key: TOKEN`; make a token with `crawlfleet token create`.",
    ),
    "not_allowed": Meaning(
        "The token's role does not cover this, or a node speaks for another node.",
        "Use a token of the role that `detail` names.",
    ),
    "address_not_allowed": Meaning(
        "The caller's address is in none of the master's `allowed_networks`.",
        "Call from an allowed network, or add yours to the setting.",
    ),
    "wrong_node": Meaning("A node speaks for an execution of another node.", "Nothing: it has no business there."),
    "not_found": Meaning("There is no such thing, or nothing is at this path.", "Check the id and the path."),
    "no_crawl": Meaning(
        "A task says that it takes part in a crawl over many nodes, and does not.",
        "Submit the crawl as a group: `crawlfleet crawl`.",
    ),
    "unknown_task": Meaning("Inside a batch: no such task. Alone it is `not_found`.", "Check the id."),
    "unknown_node": Meaning("Inside a batch: no such node. Alone it is `not_found`.", "Check the id or device id."),
    "method_not_allowed": Meaning("The path is there, the method is not.", "Use one of the header `Allow`."),
    "conflict": Meaning(
        "Somebody else was quicker, or the name is taken: a device id in use, another version of a configuration.",
        "Read again, then decide.",
    ),
    "illegal_transition": Meaning(
        "A task in this state cannot take that step.", "Look at the task; `why` says where it stands."
    ),
    "already_final": Meaning("The task has ended.", "Open its next round with `:retry`, if that was meant."),
    "not_final": Meaning("The task has not ended yet, so there is no next round.", "Wait for it, or `:cancel` it."),
    "not_ready": Meaning("The task is not pending, or it moved meanwhile.", "Look at the task and try again."),
    "stale_execution": Meaning(
        "A node speaks for an execution that is not the live one: the task went elsewhere.",
        "Nothing: the node stops that work by itself.",
    ),
    "session_ended": Meaning(
        "A node speaks for a session that is over: its lease ran out or it opened a newer one.",
        "Nothing: the agent opens a new session by itself.",
    ),
    "not_leader": Meaning(
        "A write of a master that leads no more.", "Nothing: masters handle it among themselves; nothing was written."
    ),
    "token_already_made": Meaning(
        "The request that makes a token came again; its secret was told in the first answer and cannot be told twice.",
        "Rotate the token that `token_id` names: that gives it a new secret.",
    ),
    "node_not_ready": Meaning(
        "The node takes no work now: draining, offline or unhealthy.",
        "`crawlfleet node ready NODE`, or choose another.",
    ),
    "does_not_fit": Meaning(
        "The node chosen by hand cannot run the task: type, capability, resource or room.",
        "Choose another node; `why` says which filter refuses how many.",
    ),
    "part_of_flow": Meaning(
        "The task is a step of a flow, or an item of one: opened again alone it would run out of its place.",
        "Resume the flow: `crawlfleet flow resume FLOW`.",
    ),
    "too_large": Meaning(
        "The body is over 10,000,000 bytes (32 MiB for `:open` and `:sync`), or a field over its bound (`parameters`: "
        "1 MiB).",
        "Send less, or in several batches.",
    ),
    "unsupported_media_type": Meaning("The body is of another type than this route reads.", "Set `Content-Type`."),
    "invalid_input": Meaning(
        "Something in the request is wrong; `field` names it, `errors` has all of them if there are several.",
        "Mend that field.",
    ),
    "unknown_type": Meaning(
        "No node that runs this task type has ever joined.", "Check the name; start a worker with that executor."
    ),
    "unknown_dependency": Meaning("`depends_on` names a task that does not exist.", "Submit the parents first."),
    "unknown_group": Meaning("`group_id` names a group that does not exist.", "Make the group first."),
    "group_closed": Meaning("The group takes no other tasks.", "Make another group, or leave `group_id` out."),
    "group_open": Meaning(
        "The group has members that have not ended, so it cannot be removed.", "Wait for it, or `:cancel` it."
    ),
    "group_incomplete": Meaning(
        "Members have not completed, so the merged items would lack theirs; `progress` has the counts.",
        "`:retry` the group, wait for it, or ask with `partial=true` for what there is.",
    ),
    "idempotency_mismatch": Meaning(
        "The key was used within a day with another body.", "Use a new `Idempotency-Key` for another body."
    ),
    "batch_refused": Meaning(
        "An atomic batch had a bad task: nothing of it was stored.", "Mend the task that `field` names; send it again."
    ),
    "over_limit": Meaning(
        "Too many tasks wait already: in the installation (`max_waiting`), or in a project by its quotas, as `detail` "
        "says; none of these was stored.",
        "Come again after `Retry-After`, or raise the limit.",
    ),
    "over_quota": Meaning(
        "A quota of the task's project has no room for it; `detail` says which one and how much of it is in use.",
        "Wait until something of the project has ended, or raise the quota: `crawlfleet project set`.",
    ),
    "too_many_attempts": Meaning(
        "Too many wrong tokens from this address. Tokens that were right there before still work.",
        "Wait for `Retry-After`; find who calls with a wrong token.",
    ),
    "internal": Meaning(
        "A bug of ours. `incident` is the number under which the master's log has it.",
        "Report it with those log lines.",
    ),
    "unavailable": Meaning(
        "Something a master needs does not work at the moment: the folder of results, for one.",
        "Try again; look at the master's log and its disk.",
    ),
    "store_unavailable": Meaning(
        "The database does not answer. Nothing was written.", "Try again; look at the database."
    ),
    "read_too_long": Meaning(
        "What was asked for takes longer to look up than it may, or too many look things up at once.",
        "Ask for less: name a project, a status or a group, or a smaller `limit`; or try again later.",
    ),
    "outcome_unknown": Meaning(
        "The database was lost in the middle of a commit: it may have been written.",
        "Repeat it under the same `Idempotency-Key`, or read before you decide.",
    ),
}

AT_THE_CALLER: dict[str, Meaning] = {
    "unreachable": Meaning(
        "No master answered, also after the retries of the client.", "Is the master running? Is the address right?"
    ),
    "wait_timeout": Meaning(
        "Tasks were not final in time. They go on; `open_ids` has them.", "Wait again, or look at `why`."
    ),
    "config": Meaning(
        "A wrong setting or flag, or no address or token was given. A process does not start; commands exit with 2.",
        "The message names the setting and where its value came from.",
    ),
}

NEVER_TOLD = {
    "error": "the root of the tree",
    "usage": "the root of what a caller can mend",
    "invariant_broken": "a bug, told as `internal`",
}
"""Codes of classes that no answer carries."""

CLASSES: dict[str, str] = {
    "network": "no connection, a reset, a name that does not resolve",
    "http": "the site answered with an error",
    "blocked": "the site refuses us: 403, 429",
    "parse": "the page is not what was expected",
    "input": "the parameters cannot be used",
    "timeout": "longer than `timeout_s`, or a limit inside",
    "crash": "the process died, ran out of memory, or called exit",
    "policy": "not allowed: a private address, robots.txt",
    "internal": "any other exception of an executor",
}
