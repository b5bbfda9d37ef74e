"""Services for operators: tokens, audit log, configuration, projects, queues, hosts, reports."""
