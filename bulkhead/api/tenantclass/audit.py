"""What is written down of who did what in a plane, where, and how much of it is kept. Types only."""

from typing import Annotated, Final, Literal

from pydantic import Field

from bulkhead.api.fields import ApiModel, Rule, StorageSize, model_rules, rules

_SIZE: Final[Rule] = {
    "rule": "quantity(self).compareTo(quantity('16Mi')) >= 0 && quantity(self).compareTo(quantity('1Gi')) <= 0",
    "message": "from 16Mi to 1Gi",
}
_OF_FILES: Final[Rule] = {
    "rule": "!has(self.sink) || self.sink == 'File' || "
    "!(has(self.retain) || has(self.maxSize) || has(self.maxBackups) || has(self.maxAgeDays))",
    "message": "maxSize, maxBackups, maxAgeDays and retain are of files: take them out, or choose sink File",
}


class ClassAudit(ApiModel):
    """The audit trail of the planes."""

    model_config = model_rules(_OF_FILES)
    level: Literal["Metadata", "Request"] = Field(
        "Metadata",
        description="Metadata: who asked for what, when, from where, and what was answered. Request: also what was sent, of "
        "Kubernetes' own kinds but for Secrets, ConfigMaps, tokens and certificate requests.",
    )
    sink: Literal["File", "Stdout"] = Field(
        "File",
        description="File: in the plane's pod, where bulkhead audit reads it. Stdout: among what the API server's container "
        "prints, for the host's own collector of logs.",
    )
    max_size: StorageSize | None = Field(
        None, description="Size at which a file is begun anew: 16Mi to 1Gi, 32Mi unless given.", json_schema_extra=rules(_SIZE)
    )
    max_backups: Annotated[int, Field(ge=1, le=20)] | None = Field(
        None, description="How many former files are kept, 2 unless given."
    )
    max_age_days: Annotated[int, Field(ge=1, le=3650)] | None = Field(
        None, description="How long former files are kept at most, 30 days unless given."
    )
    retain: bool | None = Field(
        None,
        description="Whether the files lie on the volume of the plane's etcd and so outlive the pod. They take a quarter of "
        "it at most, whatever maxSize and maxBackups say.",
    )
