"""What to decide: pure functions of state, time and chance, and their explanations."""
