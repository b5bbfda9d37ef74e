"""Messages and bodies that cross a process boundary, with their versions."""
