"""Tests of `bulkhead/tracing`: what a span is, how spans leave the process, and that nothing is loaded while traces are off."""
