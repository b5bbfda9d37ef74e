"""A tour of a real cluster: what it chooses, what it holds back, and what it says about both."""
