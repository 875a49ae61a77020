"""Network policy of the embedded host: a pure compiler from policies to filter rules, and the process that applies them."""
