{{- define "reconciler.agent.fullname" -}}
{{ include "reconciler.fullname" . }}-agent
{{- end }}

{{- define "reconciler.agent.selector" -}}
app.kubernetes.io/name: {{ include "reconciler.name" . }}-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "reconciler.agent.labels" -}}
{{ include "reconciler.agent.selector" . }}
app.kubernetes.io/component: agent
app.kubernetes.io/part-of: gpu-reconciler
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "reconciler.agent.serviceAccount" -}}
{{- default (ternary (include "reconciler.agent.fullname" .) "default" .Values.agent.serviceAccount.create) .Values.agent.serviceAccount.name }}
{{- end }}
