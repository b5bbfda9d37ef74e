"""Hints: wake-ups, windows over ready tasks, live figures. Anything here may be lost; the store decides."""
