package charts

// toggle is one choice of the values file, on top of the least that is required.
type toggle struct {
	name string
	set  []string
}

// required is the least that an installation must give.
func required() []string { return []string{"--set", "existingSecret=fetcher-secrets"} }

// toggles is every choice that changes which objects there are, or their shape.
func toggles() []toggle {
	return []toggle{
		{"own-secret", []string{"existingSecret=", "secrets.DATABASE_URL=postgres://db.example/fetcher", "secrets.APP_ENC_KEY=a2V5", "secrets.RESULTS_URL=s3://results", "secrets.KAFKA_PASSWORD=pw"}},
		{"secret-files", []string{"secretFiles={DATABASE_URL,APP_ENC_KEY,RESULTS_URL}"}},
		{"names", []string{"nameOverride=gate", "commonLabels.team=data"}},
		{"fullname", []string{"fullnameOverride=the-gateway"}},
		{"image", []string{"image.repository=images.example/fetcher", "image.digest=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "imagePullSecrets[0].name=pull"}},
		{"config", []string{"config.JOB_MAX_RESULT_BYTES=10000000000", "config.TENANT_RATE_LIMIT=2.5", "config.DATASOURCE_BI_HOST=db.example", "config.OTEL_SERVICE_NAME=gateway"}},
		{"extra", []string{"extraEnv[0].name=NODE_IP", "extraEnv[0].valueFrom.fieldRef.fieldPath=status.hostIP", "extraVolumes[0].name=results", "extraVolumes[0].persistentVolumeClaim.claimName=results", "extraVolumeMounts[0].name=results", "extraVolumeMounts[0].mountPath=/results"}},
		{"shutdown", []string{"shutdown.drainDelaySeconds=30", "shutdown.graceSeconds=600"}},
		{"tls", []string{"tls.secretName=api-tls", "service.port=443", "serviceMonitor.enabled=true"}},
		{"manager-hpa", []string{"manager.hpa.enabled=true", "manager.hpa.behavior.scaleDown.stabilizationWindowSeconds=600"}},
		{"worker-hpa", []string{"worker.hpa.enabled=true"}},
		{"worker-keda", []string{"worker.keda.enabled=true"}},
		{"no-pdb", []string{"manager.pdb.enabled=false", "worker.pdb.enabled=false"}},
		{"pdb-share", []string{"manager.pdb.maxUnavailable=25%"}},
		{"no-migration", []string{"migration.enabled=false"}},
		{"placement", []string{"nodeSelector.disk=fast", "worker.nodeSelector.pool=jobs", "tolerations[0].key=data", "tolerations[0].operator=Exists", "manager.priorityClassName=high", "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=arch", "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists"}},
		{"pod-metadata", []string{"manager.podLabels.tier=api", "worker.podAnnotations.note=jobs", "migration.podLabels.tier=once", "migration.podAnnotations.note=once"}},
		{"service", []string{"service.type=LoadBalancer", "service.annotations.cloud=internal"}},
		{"ingress", []string{"ingress.enabled=true", "ingress.className=nginx", "ingress.hosts={a.example,b.example}", "ingress.tls[0].secretName=web", "ingress.tls[0].hosts={a.example}"}},
		{"http-route", []string{"httpRoute.enabled=true", "httpRoute.parentRefs[0].name=public", "httpRoute.hostnames={a.example}"}},
		{"account", []string{"serviceAccount.annotations.role=arn", "serviceAccount.name=gate", "serviceAccount.automount=true"}},
		{"foreign-account", []string{"serviceAccount.create=false", "serviceAccount.name=there"}},
		{"no-network-policy", []string{"networkPolicy.enabled=false"}},
		{"network-policy", []string{"networkPolicy.ingressFrom[0].namespaceSelector.matchLabels.name=edge", "networkPolicy.blockedIPv4={169.254.169.254/32}", "networkPolicy.extraEgress[0].to[0].podSelector.matchLabels.app=db"}},
		{"service-monitor", []string{"serviceMonitor.enabled=true", "serviceMonitor.labels.release=prometheus"}},
		{"prometheus-rule", []string{"prometheusRule.enabled=true", "prometheusRule.labels.release=prometheus"}},
		{"dashboard", []string{"dashboard.enabled=true", "dashboard.annotations.folder=Data"}},
	}
}

func (o toggle) args() []string {
	args := required()
	for _, set := range o.set {
		args = append(args, "--set", set)
	}
	return args
}
