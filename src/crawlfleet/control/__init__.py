"""What to do: services, one file per verb; `loops/` one file each. They know ports, never backends.

From the top down: `loops`, `explain` and `composites`, which do not know each other; then `nodes` and `results`; then
`tasks`, `leader`, `admin`, and at the bottom `support`.
"""
