"""Services for what executions leave: result chunks, archives, notes on pages, cookie jars."""
