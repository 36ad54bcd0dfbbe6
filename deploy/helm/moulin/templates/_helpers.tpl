{{- define "moulin.labels" -}}
app.kubernetes.io/name: moulin
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "moulin.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "moulin.environment" -}}
env:
  - {name: MOULIN_LAKE, value: {{ .Values.lake.catalog | quote }}}
  - {name: MOULIN_STORAGE, value: {{ .Values.lake.storage | quote }}}
  - {name: MOULIN_SERVE_ACCESS_FILE, value: /etc/moulin/access.toml} # of the server
  {{- with .Values.lake.options }}
  - {name: MOULIN_STORAGE_OPTIONS, value: {{ toJson . | quote }}}
  {{- end }}
  {{- range $name, $value := .Values.settings }}
  - {name: MOULIN_{{ $name | upper }}, value: {{ $value | toString | quote }}}
  {{- end }}
envFrom:
  - secretRef: {name: {{ .Values.secret }}}
{{- end }}

{{- define "moulin.security" -}}
securityContext:
  runAsNonRoot: true
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}
