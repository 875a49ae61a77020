"""The shell of metering: it watches pods and claims, counts with `bulkhead.metering`, and stores the sums on the host.

It runs while its process leads, for all tenants, and needs no ledger (`controller.dispatch`).
"""
