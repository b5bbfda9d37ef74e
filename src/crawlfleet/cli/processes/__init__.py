"""Commands that start processes: master, worker, standalone, demo."""
