"""Ports: the protocols through which control uses the outside; each docstring is a contract.

The store is described by part: `task_store`, `queue_store`, `node_store`, `host_store`, `project_store`,
`composite_store` (groups, flows, crawls, products), `schedule_store`, `event_store`, `leadership_store`,
`maintenance_store` (retention, counters) and `admin_store` (access, configuration). `store` joins them and states the
rules that all of them keep. The other modules describe the broker, the clock, the storage of chunks, the built-in task
types, the channels of notices, and the executors and the transport of an agent.
"""
