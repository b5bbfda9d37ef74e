"""Services for operators: tokens, audit log, audit of submits, configuration, projects, queues, hosts, reports."""
