"""Which task goes to which node: lane order and fair shares, then filters, strategies and the placer."""
