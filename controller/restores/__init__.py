"""Restores of planes: a TenantRestore asks, and one facet takes the steps (`controller.tenant.facets.restores`).

    asked ──> keys are there ──> plane and syncer stopped ──> note for the syncer ──> volumes filled ──> both start ──> compared

    decide, status   pure: the next step, and what is reported
    fill             the program of the pods that fill the volumes; it imports nothing of ours

Its page: docs/decisions/0050-restore.md.
"""
