"""Why a task or group is where it is, computed from the store on demand."""
