"""The simulation: real services, real agents and the real SQLite store in virtual time, under faults drawn by seed."""
