"""End-to-end tests on the embedded host: what a new user does, what must not work, and what must repair itself.

They need root and run by `make e2e`. Artefacts of failures are under build/e2e/.
"""
