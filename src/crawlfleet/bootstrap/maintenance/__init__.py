"""The operator's tools that work on an installation without the API: backup, restore, reset, repair, benchmark."""
