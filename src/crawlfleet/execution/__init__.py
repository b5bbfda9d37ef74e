"""What runs on a node. It knows masters only through their messages.

`agent` (the node's process) and `executors` (what it can run, and the processes it runs it in) do not know each other.
Below them are `crawl` (the engine of crawling task types), `sdk` (what executors are written with), and what several of
them share: `budget`, `process_state`, `master_calls`, `task_errors`, `page_failures`, `outcome_validation`.
"""
