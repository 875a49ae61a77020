"""One reconcile of one tenant: observe, decide, apply, report."""
