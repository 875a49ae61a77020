"""The parts of a tenant, a folder each: the facet, its report (pure), and what only it needs."""
