"""Commands about the fleet: nodes, clusters, target hosts, proxies, queues, cookie jars."""
