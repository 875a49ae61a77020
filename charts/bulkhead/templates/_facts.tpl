{{/*
What the controller records of a tenant, as annotations on its work namespace (bulkhead/api/policyfacts.py). No syncer may write a
namespace. A missing fact reads as empty, which is the strictest; no pod is created before the facts are recorded.
*/}}
{{- define "bulkhead.facts" -}}
- name: facts
  expression: "has(namespaceObject.metadata.annotations) ? namespaceObject.metadata.annotations : {}"
{{- end }}
{{/* One value of a fact: `include "bulkhead.fact" "runtime-class"`. */}}
{{- define "bulkhead.fact" -}}
variables.facts[?'bulkhead.dev/{{ . }}'].orValue('')
{{- end }}
{{/* The values of a fact; of an empty one the one value ''. */}}
{{- define "bulkhead.fact.list" -}}
{{ include "bulkhead.fact" . }}.split(',')
{{- end }}
{{/* For how many seconds a pod may go on after its deletion; an hour while the controller has not written it yet. */}}
{{- define "bulkhead.grace" -}}
int(variables.facts[?'bulkhead.dev/max-grace-seconds'].orValue('3600'))
{{- end }}
