{{/*
Where a syncer may write, and how it marks what it writes: written once, part of three policies. An API server converts the object
four times for each policy that matches a request, so pods and Secrets, the most frequent, match one policy each.
*/}}
{{- define "bulkhead.scope.variables" -}}
- name: plane
  expression: request.userInfo.username.split(':')[2]
- name: tenant
  expression: variables.plane.substring(3)
- name: current
  expression: "request.operation == 'DELETE' ? oldObject : object"
- name: inPlane
  expression: request.namespace == variables.plane
- name: labels
  expression: "has(variables.current.metadata.labels) ? variables.current.metadata.labels : {}"
- name: oldLabels
  expression: "oldObject != null && has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}"
- name: annotations
  expression: "has(variables.current.metadata.annotations) ? variables.current.metadata.annotations : {}"
- name: oldAnnotations
  expression: "oldObject != null && has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}"
{{- end }}
{{- define "bulkhead.scope.validations" -}}
- expression: variables.inPlane || request.namespace == variables.plane + '-work'
  message: "syncer: writes only in its own tenant's namespaces"
- expression: >-
    !variables.inPlane || request.resource.resource == 'events' ||
    (request.resource.resource == 'configmaps' && request.operation != 'DELETE' &&
    variables.current.metadata.name in ['plane-identity', 'placed-pods', 'placed-pods-recent'])
  message: "syncer: in the plane's namespace only its records (plane-identity, placed-pods, placed-pods-recent) and events"
- expression: >-
    variables.inPlane ||
    ('bulkhead.dev/managed-by' in variables.labels && variables.labels['bulkhead.dev/managed-by'] == 'syncer' &&
    'bulkhead.dev/tenant' in variables.labels && variables.labels['bulkhead.dev/tenant'] == variables.tenant &&
    'bulkhead.dev/virtual-uid' in variables.labels)
  message: "syncer: every object in the work namespace has the marker of its tenant"
- expression: >-
    variables.inPlane || request.operation != 'UPDATE' ||
    ('bulkhead.dev/managed-by' in variables.oldLabels && variables.oldLabels['bulkhead.dev/managed-by'] == 'syncer' &&
    'bulkhead.dev/tenant' in variables.oldLabels && variables.oldLabels['bulkhead.dev/tenant'] == variables.tenant)
  message: "syncer: an object without its marker is never adopted"
- expression: >-
    variables.inPlane || request.operation != 'UPDATE' ||
    ['bulkhead.dev/tenant-uid', 'bulkhead.dev/virtual-kind', 'bulkhead.dev/virtual-namespace',
    'bulkhead.dev/virtual-name', 'bulkhead.dev/virtual-uid'].all(key,
    (key in variables.oldAnnotations ? variables.oldAnnotations[key] : '') == (key in variables.annotations ? variables.annotations[key] : ''))
  message: "syncer: the record of whose object this is cannot change"
- expression: >-
    variables.inPlane || request.operation == 'DELETE' || !has(object.metadata.ownerReferences) ||
    object.metadata.ownerReferences.all(owner, owner.kind == 'Pod' && owner.apiVersion == 'v1')
  message: "syncer: only a mirrored pod may own an object"
{{- end }}
{{/*
Which tenant an object of the controller belongs to: by the marks of its namespace, or by its own if it is cluster-scoped (as a
namespace is).
*/}}
{{- define "bulkhead.controller.variables" -}}
- name: name
  expression: "request.operation == 'DELETE' ? oldObject.metadata.name : object.metadata.name"
- name: namespaced
  expression: namespaceObject != null
- name: current
  expression: "request.operation == 'DELETE' ? oldObject : object"
- name: marked
  expression: "variables.namespaced ? namespaceObject.metadata : variables.current.metadata"
- name: labels
  expression: "has(variables.marked.labels) ? variables.marked.labels : {}"
- name: tenant
  expression: >-
    'app.kubernetes.io/managed-by' in variables.labels && variables.labels['app.kubernetes.io/managed-by'] == 'bulkhead' &&
    'bulkhead.dev/tenant' in variables.labels ? variables.labels['bulkhead.dev/tenant'] : ''
- name: plane
  expression: "'bh-' + variables.tenant"
{{- end }}
