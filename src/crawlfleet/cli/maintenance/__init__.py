"""The operator's tools: backup, restore, clean-up, repair, reset, benchmark."""
