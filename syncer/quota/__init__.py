"""What the tenant's limited devices are held by, and who waits for room."""
