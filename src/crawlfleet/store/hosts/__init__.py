"""Tables of target hosts: budgets and grants, statistics, cookie jars."""
