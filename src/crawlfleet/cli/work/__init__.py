"""Commands about work: tasks, groups, flows, crawls, schedules, products, exports."""
