{{/*
Where a syncer may write, and what marks what it writes: said once, and part of three policies. An API server turns the object
into another form four times for each policy that a request meets, so pods and Secrets, the most frequent, meet one each.
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
- name: notes
  expression: "has(variables.current.metadata.annotations) ? variables.current.metadata.annotations : {}"
- name: oldNotes
  expression: "oldObject != null && has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}"
{{- end }}
{{- define "bulkhead.scope.validations" -}}
- expression: variables.inPlane || request.namespace == variables.plane + '-work'
  message: "syncer: writes only in its own tenant's namespaces"
- expression: >-
    !variables.inPlane || request.resource.resource == 'events' ||
    (request.resource.resource == 'configmaps' && variables.current.metadata.name == 'plane-identity' && request.operation != 'DELETE')
  message: "syncer: in the plane's namespace only ConfigMap plane-identity and events"
- expression: >-
    variables.inPlane ||
    ('bulkhead.dev/managed-by' in variables.labels && variables.labels['bulkhead.dev/managed-by'] == 'syncer' &&
    'bulkhead.dev/tenant' in variables.labels && variables.labels['bulkhead.dev/tenant'] == variables.tenant &&
    'bulkhead.dev/virtual-uid' in variables.labels)
  message: "syncer: every object in the work namespace carries the marker of its tenant"
- expression: >-
    variables.inPlane || request.operation != 'UPDATE' ||
    ('bulkhead.dev/managed-by' in variables.oldLabels && variables.oldLabels['bulkhead.dev/managed-by'] == 'syncer' &&
    'bulkhead.dev/tenant' in variables.oldLabels && variables.oldLabels['bulkhead.dev/tenant'] == variables.tenant)
  message: "syncer: an object without its marker is never adopted"
- expression: >-
    variables.inPlane || request.operation != 'UPDATE' ||
    ['bulkhead.dev/tenant-uid', 'bulkhead.dev/virtual-kind', 'bulkhead.dev/virtual-namespace',
    'bulkhead.dev/virtual-name', 'bulkhead.dev/virtual-uid'].all(key,
    (key in variables.oldNotes ? variables.oldNotes[key] : '') == (key in variables.notes ? variables.notes[key] : ''))
  message: "syncer: the record of whose object this is cannot change"
- expression: >-
    variables.inPlane || request.operation == 'DELETE' || !has(object.metadata.ownerReferences) ||
    object.metadata.ownerReferences.all(owner, owner.kind == 'Pod' && owner.apiVersion == 'v1')
  message: "syncer: only a mirrored pod may own an object"
{{- end }}
{{/*
Whose an object of the controller's is: the namespace's marks say so, or its own where it lies in none (a namespace is one).
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
