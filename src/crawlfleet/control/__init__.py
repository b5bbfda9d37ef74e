"""What to do: services, one file per verb; `loops/` one file each. They know ports, never backends."""
