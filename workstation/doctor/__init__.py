"""`bulkhead doctor`: checks an installation, as preflight checks a cluster before it.

    observe ──> Seen, frozen ──> judge, pure ──> Report, as preflight's

It reads and changes nothing. What these credentials may not read is a check that is skipped, with its reason.
"""
