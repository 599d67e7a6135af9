{{- define "rota.selector" -}}
app.kubernetes.io/name: rota
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rota.labels" -}}
{{ include "rota.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "rota.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "rota.addresses" -}}
- name: ROTA_STORE__URL
  valueFrom: {secretKeyRef: {name: {{ .Values.secret.name }}, key: {{ .Values.secret.storeKey }}}}
- name: ROTA_COORDINATOR__URL
  valueFrom: {secretKeyRef: {name: {{ .Values.secret.name }}, key: {{ .Values.secret.coordinatorKey }}}}
{{- end }}

{{- /* Of the settings that a process reads only when it starts: pods need not be replaced for the live ones. */ -}}
{{- define "rota.settingsChecksum" -}}
{{- $fixed := deepCopy .Values.settings }}
{{- range list
  "api.rate" "log.level" "scheduler.balancer" "scheduler.batch_size" "scheduler.global_rate"
  "scheduler.reconcile_interval" "task.retention" "task.retry_delay"
}}
{{- $place := splitList "." . }}
{{- $section := get $fixed (first $place) | default dict }}
{{- $_ := unset $section (last $place) }}
{{- if not $section }}{{ $_ := unset $fixed (first $place) }}{{ end }}
{{- end }}
{{- toYaml $fixed | sha256sum }}
{{- end }}

{{- define "rota.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "rota.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "rota.placement" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "rota.probeHost" -}}
{{- with .Values.settings.api.hosts }}
httpHeaders: [{name: Host, value: {{ first . }}}]
{{- end }}
{{- end }}
