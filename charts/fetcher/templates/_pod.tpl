{{- /* What every pod of the chart shares. Call with (dict "root" $ "settings" VALUES "serviceAccount" NAME). */}}
{{- define "fetcher.podSettings" -}}
serviceAccountName: {{ .serviceAccount }}
automountServiceAccountToken: {{ .root.Values.serviceAccount.automount }}
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .settings.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .settings.nodeSelector | default .root.Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .settings.affinity | default .root.Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .settings.tolerations | default .root.Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Labels and annotations of a role's pods. Call with (dict "root" $ "role" NAME "settings" VALUES). */}}
{{- define "fetcher.podMetadata" -}}
labels:
  {{- include "fetcher.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .role }}
  {{- with .settings.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  {{- include "fetcher.checksums" .root | nindent 2 }}
  {{- with .settings.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* One container. Call with (dict "root" $ "args" LIST "config" CONFIGMAP "secret" SECRET "settings" VALUES). */}}
{{- define "fetcher.container" -}}
name: fetcher
image: {{ include "fetcher.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: {{ toJson .args }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
envFrom:
  - configMapRef:
      name: {{ .config }}
  {{- if not .root.Values.secretFiles }}
  - secretRef:
      name: {{ .secret }}
  {{- end }}
{{- if or .root.Values.secretFiles .root.Values.extraEnv }}
env:
  {{- range .root.Values.secretFiles }}
  - name: {{ . }}_FILE
    value: /etc/fetcher/secrets/{{ . }}
  {{- end }}
  {{- with .root.Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
resources: {{ toYaml .settings.resources | nindent 2 }}
volumeMounts:
  - name: tmp
    mountPath: /tmp
  {{- if .root.Values.secretFiles }}
  - name: secrets
    mountPath: /etc/fetcher/secrets
    readOnly: true
  {{- end }}
  {{- if .root.Values.tls.secretName }}
  - name: tls
    mountPath: /etc/fetcher/tls
    readOnly: true
  {{- end }}
  {{- with .root.Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* The volumes of the container above. Call with (dict "root" $ "secret" SECRET). */}}
{{- define "fetcher.volumes" -}}
volumes:
  - name: tmp
    emptyDir:
      sizeLimit: {{ .root.Values.tmpSizeLimit }}
  {{- if .root.Values.secretFiles }}
  - name: secrets
    secret:
      secretName: {{ .secret }}
      defaultMode: 0440
      items:
        {{- range .root.Values.secretFiles }}
        - key: {{ . }}
          path: {{ . }}
        {{- end }}
  {{- end }}
  {{- if .root.Values.tls.secretName }}
  - name: tls
    secret:
      secretName: {{ .root.Values.tls.secretName }}
      defaultMode: 0440
  {{- end }}
  {{- with .root.Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* Call with (dict "probes" VALUES "scheme" SCHEME). */}}
{{- define "fetcher.probes" -}}
startupProbe:
  httpGet: {path: /health, port: http, scheme: {{ .scheme }}}
  {{- toYaml .probes.startup | nindent 2 }}
livenessProbe:
  httpGet: {path: /health, port: http, scheme: {{ .scheme }}}
  {{- toYaml .probes.liveness | nindent 2 }}
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ .scheme }}}
  {{- toYaml .probes.readiness | nindent 2 }}
{{- end }}

{{- define "fetcher.spread" -}}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "fetcher.roleSelector" $ | nindent 8 }}
  {{- end }}
{{- end }}

{{- /* The API drains before its listeners close, a worker only ends its jobs; both get a margin of ten seconds. */}}
{{- define "fetcher.gracePeriod" -}}
{{ add .Values.shutdown.drainDelaySeconds .Values.shutdown.graceSeconds 10 }}
{{- end }}
