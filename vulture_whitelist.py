"""Names that look unused, each with who uses it. `make check` fails on any other: use it, delete it, or add it here.

Framework hooks stand in `pyproject.toml` under `ignore_names`.
"""

# Enum reads them of a member that is made with its explanation (bulkhead/api/conditions.py).
_._value_
_.__doc__

# Of a command's file, by its name in the table (workstation/cli/commands.py).
_.add_arguments

# argparse reads and calls them (workstation/cli/parsing.py).
_.formatter_class
_._check_value

# What an installation calls as `kubectl_complete-bulkhead` (pyproject.toml).
_.kubectl

# A fixture that every test of its file has.
_._emptied

# Fields of our API: pydantic writes them into the CRDs, and the controller reads an object by its JSON names.
# -- Tenant
_.class_
_.kubernetes_version
_.control_plane
_.api_server
_.nominal
_.borrowing_limit  # refused until quotas are shared in cohorts, as are the next two
_.lending_limit
_.cohort
_.hibernation  # refused until planes hibernate
_.paused_until
_.deletion_policy
_.retention
_.shortest_schedule
_.oidc
_.required_groups
_.revoked
_.before
_.grp_tres
_.max_tres_per_user
_.root_ssh_authorized_keys
_.certificates_only
_.home_storage
_.mixed
_.last_transition_time
_.certificate_authority
_.certificates_revoked
_.revoked_users
_.plane_cluster_uid
_.refused_generation
_.plane_identity
# -- TenantClass
_.max_nominal
_.max_per_pod
_.max_limit_request_ratio
_.max_per_claim
_.max_pod_bytes
_.max_service_endpoints
_.max_dedicated
_.drain_deadline
_.max_grace_period
_.log_rate
_.session_rate
_.max_size
_.max_quota
_.max_replicas
_.cpu_limits
_.max_backups
_.max_age_days
_.max_resources
_.max_nodes
_.agent_forwarding
_.port_forwarding
_.discovery_url
_.audiences
_.certificate_authority
_.required_claims
_.email_domains
_.max_token_age
_.every_tenant
_.allowed_class_names
_.allowed_types
_.hostname_domains
_.section_name
_.allowed_egress_cidrs
_.allowed_app_armor_profiles
_.controller_namespaces
_.device_class_quota
_.nfs
_.persistent_volume_name
_.sub_path
_.mount_options
_.shared_secrets
_.shared_config_maps
_.image_pull_secret
_.match_labels
_.exposure
_.max_borrowing
# -- TenantSnapshot
_.store_bytes
_.stored_bytes
_.start_time
_.completion_time
# -- TenantRestore
_.clone_of
_.clones
_.discard_old_data
_.snapshot_time
_.filled_time
_.unknown_count
# -- Cohort
_.tenant_names
_.preemption
# -- keys of a CRD's validation rules
_.messageExpression
_.fieldPath

# Fields of other people's objects that msgspec decodes and encodes again, so that nothing else of an object is kept.
_.restart_policy
_.init_containers
_.image_pull_secrets
_.restart_count
_.container_statuses
_.ready_replicas
_.updated_replicas
_.desired_replicas
_.slurm_idle
_.slurm_allocated
_.slurm_down
_.slurm_drain
_.nvlink
_.clique
_.zone
_.product

# Read by its name, as one of several counts (bulkhead/api/ledger.py, workstation/cli/quotas/summary.py).
_.borrowable

# Names that tests hold the chart's policies and the syncer against.
_.BY_LEDGER

# Set for a library that reads them: tarfile, io, kopf, asyncio, http.server.
_.mtime
_.linkname
_.writable
_.server_timeout
_.client_timeout
_.request_timeout
_.disabled
_.max_size
_.protocol_version
_.do_HEAD
_.log_message

# What is decided of each field of a status, beside the code; tests hold it against the fields of the Kubernetes API.
_.TRANSLATED
_.DROPPED
_.STATUS_TRANSLATED
_.STATUS_DROPPED

# Shown to a person in the text of a failed test (e2e/slurm/jobs.py).
_.exit_code

# What an informer and a queue know of themselves: tests wait for it.
_.relists
_.last_error
_.delayed

# Figures of a chaos run that its page and chaos.json show (e2e/chaos/page/page.html.j2).
_.p50_ms
_.baseline_p50_ms
_.simulated
