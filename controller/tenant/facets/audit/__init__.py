"""The receiver of the plane's audit trail: the credential for it, and what was lost on the way.

Its page: docs/decisions/0034-audit.md.
"""
