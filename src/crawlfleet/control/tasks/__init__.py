"""Services that change tasks: submit and its admission control, cancel, retry, assign, finish."""
