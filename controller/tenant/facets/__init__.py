"""What a tenant consists of, a folder each: the facet, what it says of itself (pure), and what only it needs."""
