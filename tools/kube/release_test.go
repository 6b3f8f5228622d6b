package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const (
	chart     = "../../charts/fetcher"
	namespace = "fetcher"
	secret    = "fetcher-secrets" // made before the release, as production does
)

// place is where the chart is installed: a namespace that admits restricted pods only, and a user who administers that
// namespace and nothing else.
type place struct {
	cluster *Cluster
	admin   *Client
	helm    *Helm
}

func newPlace(t *testing.T) *place {
	t.Helper()
	bin := os.Getenv("KUBE_BIN")
	if bin == "" {
		t.Fatal("KUBE_BIN names no folder of programs; `make chart-install-test` builds them and runs this")
	}
	c := StartCluster(t, bin, 3)
	c.InstallDefinitions(t)
	p := &place{cluster: c, admin: c.Admin, helm: c.Helm(c.Kubeconfig(t, "installer", namespace), namespace)}
	p.admin.Apply(t, Object{"apiVersion": "v1", "kind": "Namespace", "metadata": Object{"name": namespace, "labels": Object{
		"pod-security.kubernetes.io/enforce": "restricted",
		"pod-security.kubernetes.io/warn":    "restricted",
	}}})
	p.admin.Apply(t, Object{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
		"metadata": Object{"name": "installer", "namespace": namespace},
		"subjects": []Object{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "installer"}},
		"roleRef":  Object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
	})
	p.admin.Apply(t, Object{
		"apiVersion": "v1", "kind": "Secret", "metadata": Object{"name": secret, "namespace": namespace},
		"stringData": Object{
			"DATABASE_URL": "postgres://fetcher@db.example/fetcher", "RESULTS_URL": "s3://results",
			"APP_ENC_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
		},
	})
	eventually(t, "the namespace's own objects", func() error {
		_, account := p.everything(t)["ServiceAccount/default"]
		_, ca := p.everything(t)["ConfigMap/kube-root-ca.crt"]
		if !account || !ca {
			return fmt.Errorf("service account %v, authority %v", account, ca)
		}
		return nil
	})
	return p
}

func (p *place) everything(t *testing.T) map[string]string {
	t.Helper()
	return p.admin.Everything(t, namespace)
}

// now is the version of the latest change.
func (p *place) now(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(dig(p.admin.Get(t, "/api/v1/namespaces/"+namespace+"/configmaps"), "metadata", "resourceVersion"))
}

// values writes a file of values.
func values(t *testing.T, content Object) string {
	t.Helper()
	body, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "values.json")
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// running returns uid → component of the release's long-running pods, once each of its Deployments has all its
// replicas updated and ready and no other pod is left.
func (p *place) running(t *testing.T, release string) map[string]string {
	t.Helper()
	var pods map[string]string
	eventually(t, "every pod of "+release+" to be ready and current", func() error {
		want := 0
		for _, d := range p.deployments(t, release) {
			replicas, ready, updated := number(d, "spec", "replicas"), number(d, "status", "readyReplicas"), number(d, "status", "updatedReplicas")
			if replicas == 0 || ready != replicas || updated != replicas || number(d, "status", "observedGeneration") != number(d, "metadata", "generation") {
				return fmt.Errorf("%s: %d of %d ready, %d updated", nameOf(d), ready, replicas, updated)
			}
			want += replicas
		}
		pods = map[string]string{}
		for _, pod := range p.admin.List(t, "/api/v1/namespaces/"+namespace+"/pods?labelSelector="+instance(release)) {
			if owners, _ := dig(pod, "metadata", "ownerReferences").([]any); len(owners) == 1 && dig(owners[0], "kind") == "ReplicaSet" {
				pods[fmt.Sprint(dig(pod, "metadata", "uid"))] = fmt.Sprint(dig(pod, "metadata", "labels", "app.kubernetes.io/component"))
			}
		}
		if len(pods) != want {
			return fmt.Errorf("%d pods in the place of %d", len(pods), want)
		}
		return nil
	})
	return pods
}

func (p *place) deployments(t *testing.T, release string) []Object {
	t.Helper()
	return p.admin.List(t, "/apis/apps/v1/namespaces/"+namespace+"/deployments?labelSelector="+instance(release))
}

// components returns which components have a pod, sorted.
func components(pods map[string]string) []string {
	var all []string
	for _, component := range pods {
		all = append(all, component)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// kept counts the pods of before that are still there.
func kept(before, after map[string]string) int {
	n := 0
	for uid := range before {
		if _, ok := after[uid]; ok {
			n++
		}
	}
	return n
}

// migrated returns the change by which the migration Job ended, since a version, and how it ended.
func (p *place) migrated(t *testing.T, since string) (at int, outcome string) {
	t.Helper()
	change := p.admin.Find(t, "/apis/batch/v1/namespaces/"+namespace+"/jobs", since, func(c Change) bool {
		if dig(c.Object, "metadata", "labels", "app.kubernetes.io/component") != "migration" {
			return false
		}
		conditions, _ := dig(c.Object, "status", "conditions").([]any)
		for _, condition := range conditions {
			if kind := dig(condition, "type"); (kind == "Complete" || kind == "Failed") && dig(condition, "status") == "True" {
				outcome = fmt.Sprint(kind)
			}
		}
		return outcome != ""
	})
	return change.Version(), outcome
}

// touched returns the first change of a Deployment's specification since a version.
func (p *place) touched(t *testing.T, since string) int {
	t.Helper()
	return p.admin.Find(t, "/apis/apps/v1/namespaces/"+namespace+"/deployments", since, func(c Change) bool {
		return c.Type != "DELETED" && number(c.Object, "metadata", "generation") != number(c.Object, "status", "observedGeneration")
	}).Version()
}

// refusals returns the messages of pods that the server did not let controllers make.
func (p *place) refusals(t *testing.T) []string {
	t.Helper()
	var messages []string
	for _, event := range p.admin.List(t, "/api/v1/namespaces/"+namespace+"/events") {
		if event["reason"] == "FailedCreate" {
			messages = append(messages, fmt.Sprint(event["message"]))
		}
	}
	return messages
}

func instance(release string) string { return "app.kubernetes.io/instance%3D" + release }

func number(object Object, path ...string) int {
	n, _ := dig(object, path...).(float64)
	return int(n)
}
