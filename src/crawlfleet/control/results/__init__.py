"""Services for the output of executions: result chunks, archives, page notes, cookie jars."""
