"""The task types every node knows. They share executor processes: no step of theirs may block for long."""
