{{- define "fetcher.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}
{{- end }}

{{- define "fetcher.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fetcher.labels" -}}
{{ include "fetcher.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Labels that tell the pods of one role from the others. Call with (dict "root" $ "role" NAME). */}}
{{- define "fetcher.roleSelector" -}}
{{ include "fetcher.selector" .root }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "fetcher.secretName" -}}
{{- if .Values.existingSecret }}{{ .Values.existingSecret }}{{ else }}{{ include "fetcher.fullname" . }}{{ end }}
{{- end }}

{{- define "fetcher.serviceAccountName" -}}
{{- $default := include "fetcher.fullname" . }}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default $default }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- /* The migration hook runs before the release's own objects exist, so it has its own. */}}
{{- define "fetcher.migrationName" -}}
{{ include "fetcher.fullname" . }}-migrate
{{- end }}

{{- define "fetcher.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion }}
{{- if .Values.image.digest }}{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}{{ else }}{{ printf "%s:%s" .Values.image.repository $tag }}{{ end }}
{{- end }}

{{- define "fetcher.scheme" -}}
{{- if .Values.tls.secretName }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{- /* Metadata of what the migration's pod needs. */}}
{{- define "fetcher.hookMetadata" -}}
name: {{ include "fetcher.migrationName" . }}
labels:
  {{- include "fetcher.labels" . | nindent 2 }}
  app.kubernetes.io/component: migration
annotations:
  helm.sh/hook: pre-install,pre-upgrade
  helm.sh/hook-weight: "-10"
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end }}
