"""The keys and certificates of a plane, and that its API server presents the current one."""
