"""What the syncer writes, to the host and to the plane, and what every write has to pass: budget, identity, the breaker."""
