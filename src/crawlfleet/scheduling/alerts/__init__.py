"""Alerts: when a rule fires and clears, and which notices that makes."""
