"""The identity of a plane: its signed record, checked in every reconcile before anything follows from it.

Its page: docs/decisions/0046-who-a-plane-is.md.
"""
