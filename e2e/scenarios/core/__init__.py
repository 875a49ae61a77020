"""End-to-end tests on the embedded host: what a newcomer does, what must not work, and what must repair itself.

They need root and run by `make e2e`; artefacts of failures lie under build/e2e/.
"""
