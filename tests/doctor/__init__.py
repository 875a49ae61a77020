"""`bulkhead doctor`, on facts and on real API servers."""
