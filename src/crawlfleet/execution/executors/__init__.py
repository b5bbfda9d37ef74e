"""What a node can run, and the processes it runs it in."""
