"""State that the executions of one executor process share: the robots.txt cache and the pools of proxies."""
