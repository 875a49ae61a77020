"""Where the tenant's pods may go outside of it."""
