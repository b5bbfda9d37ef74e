"""Services for what executions leave: result chunks, archives, cookie jars."""
