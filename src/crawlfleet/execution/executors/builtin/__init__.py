"""The built-in task types. They share executor processes, so none of them may block the event loop for long."""
