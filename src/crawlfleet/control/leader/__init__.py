"""The leader's memory: its view of the cluster and of nodes, ledgers of slots and grants, caches its loops share."""
