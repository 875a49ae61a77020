{{/* Whose requests a policy judges: those of syncers, which no tenant's workload can be, or those of the controller. */}}
{{- define "bulkhead.by-a-syncer" -}}
- name: by-a-syncer
  expression: request.userInfo.username.matches('^system:serviceaccount:bh-[a-z0-9-]+:syncer$')
{{- end }}
{{- define "bulkhead.by-the-controller" -}}
- name: by-the-controller
  expression: request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:bulkhead-controller'
{{- end }}
{{/* Namespaces that the controller made: it cannot take their tenant's label off (bulkhead-controller-namespaces). */}}
{{- define "bulkhead.in-tenants-namespaces" -}}
matchExpressions:
  - key: bulkhead.dev/tenant
    operator: Exists
{{- end }}
{{/* The mark of a work namespace whose tenant is taken down (bulkhead/api/labels.py). */}}
{{- define "bulkhead.ends" -}}
bulkhead.dev/ends
{{- end }}
{{/* The binding that enforces a policy everywhere: `include "bulkhead.binding" (list . "bulkhead-syncer-pods")`. */}}
{{- define "bulkhead.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ index . 1 }}
  labels:
    {{- include "bulkhead.labels" (index . 0) | nindent 4 }}
  annotations:
    {{- include "bulkhead.kept" . | nindent 4 }}
spec:
  policyName: {{ index . 1 }}
  validationActions: [Deny]
{{- end }}
