"""The report on a plane's keys and certificates. Pure."""

from typing import Final

from bulkhead.api.conditions import ConditionType, Reason
from controller.tenant.status import Report
from controller.verdict import Verdict

_PUT_OFF_SECONDS: Final = 30.0


def report(*, there: bool, put_off: str = "", authority: str = "") -> Report:
    """`put_off` is why certificates that are due are not renewed yet; `authority` is the CA of the plane's API server, PEM."""
    return Report(
        conditions={ConditionType.PKI_READY: _pki(put_off, there=there)},
        needed=(ConditionType.PKI_READY,),
        fields={"certificateAuthority": authority} if authority else {},
        again=_PUT_OFF_SECONDS if put_off else None,
    )


def _pki(put_off: str, *, there: bool) -> Verdict:
    if not there:
        return Verdict("False", Reason.PROVISIONING, "keys and certificates are being created")
    if put_off:
        return Verdict("True", Reason.READY, f"every certificate exists; some are due and not renewed yet: {put_off}")
    return Verdict("True", Reason.READY, "every certificate exists and is fresh")
