"""What crosses a process boundary: versioned messages and bodies."""
