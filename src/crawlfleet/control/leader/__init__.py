"""The leader's memory: its view of the cluster, ledgers of slots and grants, caches its loops share."""
