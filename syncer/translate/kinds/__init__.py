"""One file per kind: what an object of the tenant looks like on the host, and what comes back from there. Pure."""
