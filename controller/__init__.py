"""Turns each Tenant into a running control plane: observe, plan (pure), apply, summarise the status (pure)."""
