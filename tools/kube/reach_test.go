package kube

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reached checks what the cluster's own controllers make of the release's selectors: its Services lead to the ready
// pods that they are for and to no other, its disruption budgets count the pods of one component each, and its autoscalers find
// what they scale.
func (p *place) reached(t *testing.T, release string) {
	t.Helper()
	replicas := map[string]int{}
	for _, component := range p.running(t, release) {
		replicas[component]++
	}

	eventually(t, "the Services to lead to their pods", func() error {
		pods := map[string][]string{} // by component
		for _, pod := range p.of(t, "/api/v1", "pods", release) {
			component := fmt.Sprint(dig(pod, "metadata", "labels", "app.kubernetes.io/component"))
			pods[component] = append(pods[component], nameOf(pod))
		}
		for _, service := range p.of(t, "/api/v1", "services", release) {
			want := slices.Clone(pods["manager"])
			// The API is behind an address of its own. A Service without one is what metrics are scraped through.
			if dig(service, "spec", "clusterIP") == "None" {
				want = append(want, pods["worker"]...)
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, p.targets(t, nameOf(service))); diff != "" || len(want) == 0 {
				return fmt.Errorf("%s (-want +got):\n%s", nameOf(service), diff)
			}
		}
		return nil
	})

	budgets := p.of(t, "/apis/policy/v1", "poddisruptionbudgets", release)
	if len(budgets) != len(replicas) {
		t.Errorf("%d disruption budgets for %d components", len(budgets), len(replicas))
	}
	eventually(t, "the disruption budgets to count the pods", func() error {
		for _, b := range p.of(t, "/apis/policy/v1", "poddisruptionbudgets", release) {
			component := fmt.Sprint(dig(b, "spec", "selector", "matchLabels", "app.kubernetes.io/component"))
			if expected, allowed := number(b, "status", "expectedPods"), number(b, "status", "disruptionsAllowed"); expected != replicas[component] || allowed != 1 {
				return fmt.Errorf("%s expects %d of %d pods and allows %d to go", nameOf(b), expected, replicas[component], allowed)
			}
		}
		return nil
	})

	eventually(t, "the autoscalers to find what they scale", func() error {
		for _, scaler := range p.of(t, "/apis/autoscaling/v2", "horizontalpodautoscalers", release) {
			able := false
			conditions, _ := dig(scaler, "status", "conditions").([]any)
			for _, condition := range conditions {
				able = able || dig(condition, "type") == "AbleToScale" && dig(condition, "status") == "True"
			}
			if !able {
				return fmt.Errorf("%s: %v", nameOf(scaler), conditions)
			}
		}
		return nil
	})
}

// targets returns the ready pods behind a Service.
func (p *place) targets(t *testing.T, service string) []string {
	t.Helper()
	var names []string
	path := "/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices?labelSelector=kubernetes.io/service-name%3D" + service
	for _, slice := range p.admin.List(t, path) {
		endpoints, _ := slice["endpoints"].([]any)
		for _, endpoint := range endpoints {
			if dig(endpoint, "conditions", "ready") == true {
				names = append(names, fmt.Sprint(dig(endpoint, "targetRef", "name")))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// of returns the release's objects of a kind.
func (p *place) of(t *testing.T, group, plural, release string) []Object {
	t.Helper()
	return p.admin.List(t, group+"/namespaces/"+namespace+"/"+plural+"?labelSelector="+instance(release))
}
