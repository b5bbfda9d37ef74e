"""Tables of projects, their quotas, and the quota slices granted of a day."""
