"""What the host shares with the tenant."""
