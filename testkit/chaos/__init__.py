"""A real cluster under faults: masters, workers, PostgreSQL and Redis as processes of their own, judged at the end."""
