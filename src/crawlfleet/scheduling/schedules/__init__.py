"""Schedules: cron expressions, and the ticks that are due."""
