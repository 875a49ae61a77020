"""Tests of network and disk figures: which lines of a kubelet's page are a tenant's, and what a hostile page or source does."""
