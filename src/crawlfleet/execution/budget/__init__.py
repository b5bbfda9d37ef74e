"""Budgets of target hosts and daily quotas: the gate before each request, the meter, and the node's grants for them."""
