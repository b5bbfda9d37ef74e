"""Why a task, flow or group is where it is: causes found by the same rules that place, and their wording."""
