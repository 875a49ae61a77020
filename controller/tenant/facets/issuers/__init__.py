"""The identity providers by whose tokens the tenant's users sign in."""
