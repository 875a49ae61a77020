"""Tests of bulkhead.kube: against two real API servers, and against a hostile small one."""
