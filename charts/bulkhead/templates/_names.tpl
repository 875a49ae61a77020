{{- define "bulkhead.labels" -}}
app.kubernetes.io/name: bulkhead
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "bulkhead.selector" -}}
app.kubernetes.io/name: bulkhead
app.kubernetes.io/component: controller
{{- end }}
{{- define "bulkhead.quoted" -}}
{{- $quoted := list -}}
{{- range . }}{{ $quoted = append $quoted (printf "'%s'" .) }}{{ end -}}
{{- join ", " $quoted -}}
{{- end }}
{{- /* The full name of an image of `images`: (list . "etcd"). */ -}}
{{- define "bulkhead.image" -}}
{{- $images := (index . 0).Values.images -}}
{{- $name := index $images (index . 1) -}}
{{- if contains "/" $name }}{{ $name }}{{ else }}{{ $images.registry }}/{{ $name }}{{ end -}}
{{- end }}
{{/* The definitions of our kinds (bulkhead/api/crd.py; a test holds the two together). */}}
{{- define "bulkhead.definitions" -}}
- tenants.bulkhead.dev
- tenantclasses.bulkhead.dev
{{- end }}
{{/* What tenants need that run stays when the chart is uninstalled without its hooks; the next installation takes it over. */}}
{{- define "bulkhead.kept" -}}
helm.sh/resource-policy: keep
{{- end }}
