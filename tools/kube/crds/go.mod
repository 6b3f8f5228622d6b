// Pins the custom resource definitions that the chart's optional objects need. The modules are read for their YAML files
// only and no package of theirs is built, so `go mod tidy` would empty this file.
module github.com/fetcherhq/fetcher/tools/kube/crds

go 1.26.0

require (
	github.com/kedacore/keda/v2 v2.21.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/gateway-api v1.4.1
)
