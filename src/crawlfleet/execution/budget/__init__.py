"""Budgets of an execution: the host gate before each request, and the meter of the daily quota."""
