"""What the tenant's limited devices are held by, who waits for room, and what the tenant's nodes show of them."""
