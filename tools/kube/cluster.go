// Package kube runs a Kubernetes control plane with simulated nodes for a test: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler as they are, and kwok in the place of nodes, whose pods exist in the API
// only. Everything listens on loopback, lives in a temporary folder and ends with the test. The programs come from
// build.sh.
package kube

import (
	"crypto/tls"
	_ "embed"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed stages.yaml
var stages []byte

// Cluster is a running control plane.
type Cluster struct {
	// Admin may do everything.
	Admin *Client

	bin, dir string
	server   string
	ca       *authority
}

// StartCluster runs the programs in the folder bin until the test ends, with that many simulated nodes.
func StartCluster(t *testing.T, bin string, nodes int) *Cluster {
	t.Helper()
	dir := t.TempDir()
	c := &Cluster{bin: bin, dir: dir, ca: newAuthority(t, dir)}

	etcd, endpoint := c.startEtcd(t)
	t.Logf("etcd answers on %s", endpoint)
	apiserver := c.startServer(t, endpoint, etcd)
	t.Logf("kube-apiserver is ready on %s", c.server)

	// Each program is the user that the server's built-in roles are made for.
	c.ca.issue(t, "controllers", "system:kube-controller-manager")
	controllers := start(t, bin, dir, "kube-controller-manager",
		"--kubeconfig="+c.ca.kubeconfig(t, "controllers", c.server, ""), "--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file="+c.ca.path("accounts.key"), "--root-ca-file="+c.ca.path("ca.crt"),
		"--use-service-account-credentials=true", "--kube-api-qps=200", "--kube-api-burst=400")
	c.ca.issue(t, "scheduler", "system:kube-scheduler")
	scheduler := start(t, bin, dir, "kube-scheduler",
		"--kubeconfig="+c.ca.kubeconfig(t, "scheduler", c.server, ""), "--leader-elect=false", "--secure-port=0")
	if err := os.WriteFile(filepath.Join(dir, "stages.yaml"), stages, 0o600); err != nil {
		t.Fatal(err)
	}
	kwok := start(t, bin, dir, "kwok", "--kubeconfig="+c.ca.kubeconfig(t, "admin", c.server, ""),
		"--config=stages.yaml", "--manage-all-nodes=true", "--node-ip=127.0.0.1", "--node-lease-duration-seconds=40")

	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		c.Admin.Apply(t, Object{"apiVersion": "v1", "kind": "Node", "metadata": Object{"name": name, "labels": Object{
			"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", i),
		}}})
	}
	eventually(t, "every node to take pods", func() error {
		for _, node := range c.Admin.List(t, "/api/v1/nodes") {
			if taints, _ := dig(node, "spec", "taints").([]any); len(taints) > 0 || dig(node, "status", "phase") != "Running" {
				return fmt.Errorf("%s has taints %v", nameOf(node), taints)
			}
		}
		return nil
	}, etcd, apiserver, controllers, scheduler, kwok)
	t.Logf("kube-controller-manager, kube-scheduler and kwok run; %d simulated nodes are ready", nodes)
	return c
}

// Kubeconfig makes a user, a member of groups, and returns the path of a file to connect with.
func (c *Cluster) Kubeconfig(t *testing.T, user, namespace string, groups ...string) string {
	t.Helper()
	c.ca.issue(t, user, user, groups...)
	return c.ca.kubeconfig(t, user, c.server, namespace)
}

func (c *Cluster) startEtcd(t *testing.T) (*process, string) {
	t.Helper()
	for {
		client, peer := "http://"+freeAddress(t), "http://"+freeAddress(t)
		etcd := start(t, c.bin, c.dir, "etcd", "--name=test", "--data-dir="+filepath.Join(c.dir, "etcd"),
			"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer,
			"--initial-advertise-peer-urls="+peer, "--initial-cluster=test="+peer, "--unsafe-no-fsync")
		if serves(t, etcd, client+"/health", http.DefaultClient) {
			return etcd, client
		}
	}
}

func (c *Cluster) startServer(t *testing.T, etcdEndpoint string, etcd *process) *process {
	t.Helper()
	c.ca.issue(t, "server", "kube-apiserver")
	writeKey(t, c.ca.path("accounts.key"), newKey(t))
	admin := c.ca.issue(t, "admin", "admin", "system:masters")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: c.ca.pool, Certificates: []tls.Certificate{admin}, MinVersion: tls.VersionTLS13,
	}}}
	t.Cleanup(client.CloseIdleConnections)
	for {
		if err := etcd.ended(); err != nil {
			t.Fatal(err)
		}
		host, port, _ := strings.Cut(freeAddress(t), ":")
		c.server = "https://" + host + ":" + port
		server := start(t, c.bin, c.dir, "kube-apiserver", "--etcd-servers="+etcdEndpoint,
			"--bind-address="+host, "--advertise-address="+host, "--secure-port="+port, "--endpoint-reconciler-type=none",
			"--tls-cert-file="+c.ca.path("server.crt"), "--tls-private-key-file="+c.ca.path("server.key"),
			"--client-ca-file="+c.ca.path("ca.crt"), "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16",
			"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+c.ca.path("accounts.key"),
			"--service-account-signing-key-file="+c.ca.path("accounts.key"))
		if serves(t, server, c.server+"/readyz", client) {
			c.Admin = &Client{base: c.server, http: client}
			return server
		}
	}
}

// serves waits until the program answers at url, and is false when another one took its port first.
func serves(t *testing.T, p *process, url string, client *http.Client) bool {
	t.Helper()
	taken := false
	eventually(t, p.name+" to answer", func() error {
		if end := p.ended(); end != nil {
			if taken = strings.Contains(string(p.tail(1<<20)), "address already in use"); taken {
				return nil
			}
			t.Fatal(end)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, answer.Status)
		}
		return nil
	})
	return !taken
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
