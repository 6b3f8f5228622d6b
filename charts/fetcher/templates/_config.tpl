{{- /* Variables that follow from other values, so that ports, probes and grace periods can't contradict them. */}}
{{- define "fetcher.configData" -}}
SERVER_ADDRESS: ":4006"
HEALTH_ADDRESS: ":4007"
READYZ_DRAIN_DELAY_SEC: {{ .Values.shutdown.drainDelaySeconds | quote }}
SHUTDOWN_GRACE: "{{ .Values.shutdown.graceSeconds }}s"
{{- if .Values.tls.secretName }}
SERVER_TLS_CERT: /etc/fetcher/tls/tls.crt
SERVER_TLS_KEY: /etc/fetcher/tls/tls.key
{{- end }}
{{- range $name, $value := .Values.config }}
{{ $name }}: {{ include "fetcher.text" $value | quote }}
{{- end }}
{{- end }}

{{- /* Numbers of a values file are floats in Helm, which would print 1000000 as 1e+06. */}}
{{- define "fetcher.text" -}}
{{- if kindIs "float64" . }}{{ if eq . (floor .) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- define "fetcher.secretData" -}}
DATABASE_URL: {{ required "secrets.DATABASE_URL is required without existingSecret" .Values.secrets.DATABASE_URL | quote }}
APP_ENC_KEY: {{ required "secrets.APP_ENC_KEY is required without existingSecret" .Values.secrets.APP_ENC_KEY | quote }}
RESULTS_URL: {{ required "secrets.RESULTS_URL is required without existingSecret" .Values.secrets.RESULTS_URL | quote }}
{{- range $name, $value := omit .Values.secrets "DATABASE_URL" "APP_ENC_KEY" "RESULTS_URL" }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end }}

{{- /* Changes with the configuration, so that pods roll with it. The content of existingSecret can't be seen from here. */}}
{{- define "fetcher.checksums" -}}
checksum/config: {{ include "fetcher.configData" . | sha256sum }}
{{- if not .Values.existingSecret }}
checksum/secret: {{ include "fetcher.secretData" . | sha256sum }}
{{- end }}
{{- end }}
