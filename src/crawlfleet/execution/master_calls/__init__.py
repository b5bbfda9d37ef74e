"""Calls to masters over HTTP that both the agent and its executors make, and when their rejections are believed."""
