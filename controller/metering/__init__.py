"""The shell of metering: watches pods and claims, has `bulkhead.metering` count, and stores the sums on the host.

It runs while its process leads, for all tenants, and needs no ledger (`controller.dispatch`).
"""
