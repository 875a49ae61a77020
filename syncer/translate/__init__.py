"""The pure half of the syncer: what a tenant's object looks like on the host, and the other way round.

Per kind one module with `to_host(virtual, view)`; `registry.KINDS` lists them. Plain dicts go in and come out, the input is
never changed, and the only error is `Untranslatable`, also for what a hostile plane sends. No clock, no network, no randomness:
the same input gives the same output, so that the runtime can compare instead of remember.
"""

from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.references import Reference
from syncer.translate.view import TenantView, Toleration

__all__ = ["Reason", "Reference", "TenantView", "Toleration", "Untranslatable"]
