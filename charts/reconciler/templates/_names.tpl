{{- define "reconciler.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "reconciler.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- $name := include "reconciler.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "reconciler.selector" -}}
app.kubernetes.io/name: {{ include "reconciler.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "reconciler.labels" -}}
{{ include "reconciler.selector" . }}
app.kubernetes.io/component: controller
app.kubernetes.io/part-of: gpu-reconciler
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "reconciler.serviceAccount" -}}
{{- default (ternary (include "reconciler.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{- define "reconciler.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- /* The subject of every binding. */}}
{{- define "reconciler.subjects" -}}
- kind: ServiceAccount
  name: {{ include "reconciler.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* How deep runs are made, for the controller. */}}
{{- define "reconciler.deepRuns" -}}
{{- if not (and .Values.health.enabled .Values.agent.enabled) }}
{{- fail "health.deepRuns.enabled needs health.enabled and agent.enabled" }}
{{- end }}
{{- $secrets := .Values.image.pullSecrets | default list }}
{{- dict "image" (include "reconciler.image" .) "namespace" .Release.Namespace "serviceAccount" (include "reconciler.agent.serviceAccount" .) "runtimeClass" .Values.agent.runtimeClassName "pullSecrets" $secrets | toJson }}
{{- end }}
