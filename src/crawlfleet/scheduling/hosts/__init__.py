"""Budgets of target hosts: back-off, and how a budget is divided among nodes."""
