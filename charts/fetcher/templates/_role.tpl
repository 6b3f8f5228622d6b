{{- /* The objects that manager and worker have alike. Call each with (dict "root" $ "role" NAME "settings" VALUES). */}}
{{- define "fetcher.deployment" -}}
{{- $name := include "fetcher.fullname" .root }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}-{{ .role }}
  labels:
    {{- include "fetcher.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
spec:
  {{- if not .scaled }}
  replicas: {{ .settings.replicas }}
  {{- end }}
  revisionHistoryLimit: {{ .root.Values.revisionHistoryLimit }}
  selector:
    matchLabels:
      {{- include "fetcher.roleSelector" . | nindent 6 }}
  strategy:
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  template:
    metadata:
      {{- include "fetcher.podMetadata" . | nindent 6 }}
    spec:
      {{- include "fetcher.podSettings" (dict "root" .root "settings" .settings "serviceAccount" (include "fetcher.serviceAccountName" .root)) | nindent 6 }}
      {{- include "fetcher.spread" . | nindent 6 }}
      terminationGracePeriodSeconds: {{ include "fetcher.gracePeriod" .root }}
      containers:
        - {{- include "fetcher.container" (dict "root" .root "args" (list .role) "config" $name "secret" (include "fetcher.secretName" .root) "settings" .settings) | nindent 10 }}
          ports:
            - name: http
              containerPort: {{ .port }}
          {{- include "fetcher.probes" (dict "probes" .settings.probes "scheme" .scheme) | nindent 10 }}
      {{- include "fetcher.volumes" (dict "root" .root "secret" (include "fetcher.secretName" .root)) | nindent 6 }}
{{- end }}

{{- define "fetcher.pdb" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "fetcher.fullname" .root }}-{{ .role }}
  labels:
    {{- include "fetcher.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
spec:
  maxUnavailable: {{ .settings.pdb.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "fetcher.roleSelector" . | nindent 6 }}
{{- end }}

{{- define "fetcher.hpa" -}}
{{- if gt (int .settings.hpa.minReplicas) (int .settings.hpa.maxReplicas) }}{{ fail (printf "%s.hpa.minReplicas must not be above %s.hpa.maxReplicas" .role .role) }}{{ end }}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ include "fetcher.fullname" .root }}-{{ .role }}
  labels:
    {{- include "fetcher.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "fetcher.fullname" .root }}-{{ .role }}
  minReplicas: {{ .settings.hpa.minReplicas }}
  maxReplicas: {{ .settings.hpa.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ .settings.hpa.targetCPUUtilizationPercentage }}
  {{- with .settings.hpa.behavior }}
  behavior: {{ toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
