{{/*
Labels, annotations and finalizers of what a syncer writes, part of each policy that has the scope. Controllers of the host act on
them: of schedulers, meshes, networks, devices. So a key is allowed if it stands for a tenant's own or if translation itself sets it
(syncer/translate/metadata.py; a test holds the two together), and what others have set stays. `hostMetadataDomains` are those that
the host's own admission sets while it handles the syncer's request: to a policy they look like the syncer's.
*/}}
{{- define "bulkhead.metadata.variables" -}}
- name: finalizers
  expression: "has(variables.current.metadata.finalizers) ? variables.current.metadata.finalizers : []"
- name: oldFinalizers
  expression: "oldObject != null && has(oldObject.metadata.finalizers) ? oldObject.metadata.finalizers : []"
- name: domains
  expression: {{ printf "[%s]" (include "bulkhead.quoted" (concat (list "app.kubernetes.io" "apps.kubernetes.io" "batch.kubernetes.io" "statefulset.kubernetes.io" "helm.sh" "tenant.bulkhead.dev" "namespace.bulkhead.dev") .Values.hostMetadataDomains)) | quote }}
# No pod of a tenant may look like a part of its plane, so of our own labels only these.
- name: knownLabels
  expression: >-
    ['bulkhead.dev/managed-by', 'bulkhead.dev/tenant', 'bulkhead.dev/virtual-uid', 'bulkhead.dev/namespace-hash',
    'bulkhead.dev/ingress-isolated', 'bulkhead.dev/egress-isolated', 'bulkhead.dev/drained'] +
    (request.resource.resource == 'pods' ? [] : ['topology.kubernetes.io/zone', 'topology.kubernetes.io/region']) +
    (request.resource.resource == 'endpointslices' ?
    ['kubernetes.io/service-name', 'endpointslice.kubernetes.io/managed-by'] : [])
- name: knownAnnotations
  expression: >-
    ['kubectl.kubernetes.io/default-container', 'kubectl.kubernetes.io/default-logs-container'] +
    (request.resource.resource == 'pods' ? ['cluster-autoscaler.kubernetes.io/safe-to-evict',
    'cluster-autoscaler.kubernetes.io/daemonset-pod', 'kubernetes.io/limit-ranger'] : [])
- name: annotationDomains
  expression: {{ printf "[%s]" (include "bulkhead.quoted" (concat (list "bulkhead.dev" "label.bulkhead.dev" "annotation.bulkhead.dev") .Values.hostMetadataDomains)) | quote }}
- name: ours
  expression: "!variables.inPlane && request.operation != 'DELETE'"
{{- end }}
{{- define "bulkhead.metadata.label" -}}
(key in variables.knownLabels || (key.contains('/') ? key.split('/')[0] in variables.domains :
!(key in ['aadpodidbinding', 'istio-injection', 'release', 'control-plane'])))
{{- end }}
{{- define "bulkhead.metadata.annotation" -}}
(key in variables.knownAnnotations || key.split('/')[0] in variables.annotationDomains)
{{- end }}
{{- define "bulkhead.metadata.validations" -}}
- expression: >-
    !variables.ours || variables.labels.all(key,
    (key in variables.oldLabels && variables.oldLabels[key] == variables.labels[key]) ||
    ({{ include "bulkhead.metadata.label" . | nindent 4 | trim }} &&
    (key != 'app.kubernetes.io/managed-by' || variables.labels[key] == 'bulkhead')))
  message: "syncer: no label that means something to others on the host"
- expression: >-
    !variables.ours || variables.annotations.all(key,
    (key in variables.oldAnnotations && variables.oldAnnotations[key] == variables.annotations[key]) ||
    {{ include "bulkhead.metadata.annotation" . }})
  message: "syncer: no annotation that means something to others on the host"
- expression: >-
    !variables.ours ||
    (variables.oldLabels.all(key, key in variables.labels || {{ include "bulkhead.metadata.label" . | nindent 4 | trim }}) &&
    variables.oldAnnotations.all(key, key in variables.annotations || {{ include "bulkhead.metadata.annotation" . }}))
  message: "syncer: labels and annotations that others on the host have set stay"
# The host's own admission adds these two.
- expression: >-
    !variables.ours || (variables.finalizers.all(f, f in variables.oldFinalizers ||
    f in ['kubernetes.io/pvc-protection', 'scheduling.k8s.io/podgroup-protection']) &&
    variables.oldFinalizers.all(f, f in variables.finalizers))
  message: "syncer: finalizers are set and removed by others"
{{- end }}
