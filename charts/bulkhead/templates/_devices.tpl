{{/*
The variables by which container runtimes hand out devices: the same as in bulkhead/api/devices.py; a test compares the two.
The last envFrom of a container on the host closes them; only a container that requests a vendor's device leaves that vendor's open.
*/}}
{{- define "bulkhead.devices.vendors" -}}
nvidia: [nvidia.com]
amd: [amd.com]
habana: [habana.ai]
ascend: [huawei.com]
mthreads: [mthreads.com]
hygon: [hygon.com]
iluvatar: [iluvatar.com, iluvatar.ai]
cambricon: [cambricon.com]
neuron: [aws.amazon.com]
enflame: [enflame.com]
vastai: [vastaitech.com]
metax: [metax-tech.com]
biren: [birentech.com]
{{- end }}
{{- define "bulkhead.devices.names" -}}
- AMD_VISIBLE_DEVICES
- ASCEND_ALLOW_LINK
- ASCEND_RUNTIME_MOUNTS
- ASCEND_RUNTIME_OPTIONS
- ASCEND_VISIBLE_DEVICES
- ASCEND_VNPU_SPECS
- AWS_NEURON_VISIBLE_DEVICES
- BIREN_VISIBLE_DEVICES
- CAMBRICON_VISIBLE_DEVICES
- DCU_VISIBLE_DEVICES
- ENFLAME_VISIBLE_DEVICES
- HABANA_VISIBLE_DEVICES
- HCU_VISIBLE_DEVICES
- ILUVATAR_COREX_VISIBLE_DEVICES
- IX_VISIBLE_DEVICES
- METAX_VISIBLE_DEVICES
- MIG_VISIBLE_DEVICES
- MTHREADS_VISIBLE_DEVICES
- NEURON_VISIBLE_DEVICES
- NVIDIA_CTK_MODE
- NVIDIA_FABRIC_IMEX_MGMT
- NVIDIA_GDRCOPY
- NVIDIA_GDS
- NVIDIA_IMEX_CHANNELS
- NVIDIA_MIG_CONFIG_DEVICES
- NVIDIA_MIG_MONITOR_DEVICES
- NVIDIA_MOFED
- NVIDIA_NVSWITCH
- NVIDIA_RUNTIME_MODE
- NVIDIA_VISIBLE_DEVICES
- TENCENT_VISIBLE_DEVICES
- VASTAI_VISIBLE_DEVICES
- VHCU_VISIBLE_DEVICES
{{- end }}
{{- define "bulkhead.devices.known" -}}
# A map: a look-up in a list costs as much as the list is long, and a pod can have thousands of variables.
- name: deviceNames
  expression: {{ printf "{'%s': 0}" (join "': 0, '" (include "bulkhead.devices.names" . | fromYamlArray)) | quote }}
{{- end }}
{{/* Whether `key`, a key of a ConfigMap or Secret, may become a variable of a container by envFrom. */}}
{{- define "bulkhead.devices.key" -}}
!(key in variables.deviceNames) && key != 'NVIDIA_DRIVER_CAPABILITIES' && !key.startsWith('DOCKER_RESOURCE_') &&
!key.startsWith('HABANA_VISIBLE_DEVICES')
{{- end }}
{{- define "bulkhead.devices.variables" -}}
{{- $granted := list }}
{{- range $vendor, $domains := include "bulkhead.devices.vendors" . | fromYaml }}
{{- $resources := list }}
{{- range $resource := $.Values.gpuResources }}
{{- if has (index (splitList "/" $resource) 0) $domains }}{{ $resources = append $resources $resource }}{{ end }}
{{- end }}
{{- if $resources }}{{ $granted = append $granted (printf "'devices-v1-%s': [%s]" $vendor (include "bulkhead.quoted" $resources)) }}{{ end }}
{{- end -}}
# The accelerators of which a container must request one to name one of these ConfigMaps.
- name: granted
  expression: {{ printf "{'devices-v1': ['']%s}" (ternary (printf ", %s" (join ", " $granted)) "" (not (empty $granted))) | quote }}
{{ include "bulkhead.devices.known" . }}
# Containers that run were judged when they were created: their environment cannot change.
- name: starting
  expression: >-
    dyn(variables.creates ? variables.containers : []) + dyn(variables.added)
{{- end }}
{{- define "bulkhead.devices.validations" -}}
- expression: >-
    variables.starting.all(c, has(c.envFrom) && size(c.envFrom) > 0 && [c.envFrom[size(c.envFrom) - 1]].all(last,
    has(last.configMapRef) && has(last.configMapRef.name) && (!has(last.prefix) || last.prefix == '') &&
    (!has(last.configMapRef.optional) || !last.configMapRef.optional) && last.configMapRef.name in variables.granted &&
    variables.granted[last.configMapRef.name].exists(r, r == '' || (has(c.resources) && has(c.resources.limits) &&
    r in c.resources.limits && quantity(string(c.resources.limits[r])).isGreaterThan(quantity('0'))))))
  message: "pod: each container's last envFrom closes the device variables, except those of an accelerator that it requests"
- expression: >-
    variables.starting.all(c, !has(c.env) || c.env.all(e, !(e.name.trim() in variables.deviceNames) &&
    !e.name.trim().startsWith('DOCKER_RESOURCE_') && !e.name.trim().startsWith('HABANA_VISIBLE_DEVICES') &&
    (e.name.trim() != 'NVIDIA_DRIVER_CAPABILITIES' || (!has(e.valueFrom) && has(e.value) &&
    e.value.matches('^(compat32|compute|graphics|utility|video)(,(compat32|compute|graphics|utility|video))*$')))))
  message: "pod: no variable by which a container runtime hands out devices"
# NVIDIA's runtime can be set to read devices from the names of mounts: any spelling of this folder's name is refused.
- expression: "variables.starting.all(c, !has(c.volumeMounts) || c.volumeMounts.all(m, !m.mountPath.contains('nvidia-container-devices')))"
  message: "pod: no mount by which a container runtime hands out devices"
# After the prefix comes a key of a ConfigMap or Secret; those that a syncer writes have no device variable as a key.
- expression: >-
    variables.starting.all(c, !has(c.envFrom) || c.envFrom.all(e, !has(e.prefix) || e.prefix == '' || [e.prefix.trim()].all(p,
    !variables.deviceNames.exists(n, n.startsWith(p) && !(n.substring(size(p)) in variables.deviceNames)) &&
    ['DOCKER_RESOURCE_', 'HABANA_VISIBLE_DEVICES', 'NVIDIA_DRIVER_CAPABILITIES'].all(n, !n.startsWith(p)) &&
    !p.startsWith('DOCKER_RESOURCE_') && !p.startsWith('HABANA_VISIBLE_DEVICES'))))
  message: "pod: no prefix of variables that could spell one by which a container runtime hands out devices"
{{- end }}
