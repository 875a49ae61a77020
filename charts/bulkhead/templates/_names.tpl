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
{{- if contains "/" $name }}{{ $name }}{{ else }}{{ $images.registry }}/{{ $name }}
{{- with get ($images.digests | default dict) $name }}@{{ . }}{{ end }}{{ end -}}
{{- end }}
{{- /* The images that run among tenants' own pods: one of Slurm for each version, and its database. */ -}}
{{- define "bulkhead.ownImages" -}}
{{- $images := .Values.images -}}
{{- $found := list (include "bulkhead.image" (list . "mariadb")) -}}
{{- range .Values.slurmVersions -}}
{{- $title := replace "{version}" . $images.slurm -}}
{{- $named := dict "Values" (dict "images" (merge (dict "slurm" $title) $images)) -}}
{{- $found = append $found (include "bulkhead.image" (list $named "slurm")) -}}
{{- end -}}
{{- include "bulkhead.quoted" ($found | sortAlpha) -}}
{{- end }}
{{- /* The digests of images whose tag is a tenant's version, by full name: kubernetes and slurm, one for each version. */ -}}
{{- define "bulkhead.digests" -}}
{{- $images := .Values.images -}}
{{- $found := list -}}
{{- range $name, $versions := dict "kubernetes" .Values.kubernetesVersions "slurm" .Values.slurmVersions -}}
{{- $template := index $images $name -}}
{{- range $versions -}}
{{- $title := replace "{version}" . $template -}}
{{- with get ($images.digests | default dict) $title -}}
{{- if not (contains "/" $title) }}{{ $found = append $found (printf "%s/%s=%s" $images.registry $title .) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- join "," ($found | sortAlpha) -}}
{{- end }}
{{- /* Where servers are that storage of the host names: NAME=CIDR, one for each. */ -}}
{{- define "bulkhead.serverAddresses" -}}
{{- $found := list -}}
{{- range $name, $cidrs := .Values.serverAddresses -}}
{{- range $cidrs }}{{ $found = append $found (printf "%s=%s" $name .) }}{{ end -}}
{{- end -}}
{{- join "," $found -}}
{{- end }}
{{/* The definitions of our kinds (bulkhead/api/crd.py; a test holds the two together). */}}
{{- define "bulkhead.definitions" -}}
- tenants.bulkhead.dev
- tenantclasses.bulkhead.dev
- cohorts.bulkhead.dev
- sharedvolumes.bulkhead.dev
- tenantsnapshots.bulkhead.dev
- tenantrestores.bulkhead.dev
{{- end }}
{{/* What tenants need that run stays when the chart is uninstalled without its hooks; the next installation takes it over. */}}
{{- define "bulkhead.kept" -}}
helm.sh/resource-policy: keep
{{- end }}
{{- /* Tolerations, and those by which a pod leaves a silent node after 30 s, unless the given ones name its taints
       (controller/plane/placement.py has the same rule; a test holds the two together). */ -}}
{{- define "bulkhead.leaving" -}}
{{- $own := . | default list -}}
{{- $all := $own -}}
{{- range $taint := list "node.kubernetes.io/not-ready" "node.kubernetes.io/unreachable" -}}
{{- $covered := false -}}
{{- range $own -}}
{{- if and (eq (.key | default $taint) $taint) (eq (.effect | default "NoExecute") "NoExecute") }}{{ $covered = true }}{{ end -}}
{{- end -}}
{{- if not $covered -}}
{{- $all = append $all (dict "key" $taint "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" 30) -}}
{{- end -}}
{{- end -}}
{{- toYaml $all -}}
{{- end }}
