package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cuvee-vm/cuvee/tools/freeport"
)

// serviceRange is where the addresses of Services come from; the first one is the API server's.
const (
	serviceRange = "10.96.0.0/16"
	firstService = "10.96.0.1"
)

// start starts the control plane and returns the path of the administrator's kubeconfig.
func start(ctx context.Context, p *processes, o *options) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ports, err := freePorts(3)
	if err != nil {
		return "", err
	}
	api := net.JoinHostPort(o.address.String(), ports[0])
	keys, err := writeKeys(o, "https://"+api)
	if err != nil {
		return "", fmt.Errorf("make certificates: %w", err)
	}
	etcd := "http://127.0.0.1:" + ports[1]
	peer := "http://127.0.0.1:" + ports[2]
	if err := p.start("etcd", "--name=test", "--data-dir="+filepath.Join(o.dir, "etcd"), "--logger=zap", "--log-level=warn",
		// What tests write need not survive the machine; without waiting for the disk all is much faster.
		"--unsafe-no-fsync", "--quota-backend-bytes=2147483648",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=test="+peer); err != nil {
		return "", err
	}
	if err := p.start("kube-apiserver", apiserverArgs(o, ports[0], etcd)...); err != nil {
		return "", err
	}
	if err := p.await(ctx, "kube-apiserver", func(ctx context.Context) error { return get(ctx, keys.client, "https://"+api+"/readyz") }); err != nil {
		return "", err
	}
	if err := startControllers(p, o); err != nil {
		return "", err
	}
	err = p.await(ctx, "kube-controller-manager", func(ctx context.Context) error {
		return get(ctx, keys.client, "https://"+api+"/api/v1/namespaces/default/serviceaccounts/default")
	})
	if err != nil {
		return "", err
	}
	admin := filepath.Join(o.dir, "admin.kubeconfig")
	if o.kwok > 0 {
		return admin, startKwok(ctx, p, o, admin)
	}
	return admin, nil
}

func apiserverArgs(o *options, port, etcd string) []string {
	pki := filepath.Join(o.dir, "pki")
	args := []string{
		"--etcd-servers=" + etcd, "--secure-port=" + port,
		"--tls-cert-file=" + pki + "/apiserver.crt", "--tls-private-key-file=" + pki + "/apiserver.key", "--client-ca-file=" + pki + "/ca.crt",
		"--kubelet-client-certificate=" + pki + "/apiserver-kubelet.crt", "--kubelet-client-key=" + pki + "/apiserver-kubelet.key",
		"--kubelet-certificate-authority=" + pki + "/ca.crt",
		// By name first is the default, and would wait for a DNS that knows no nodes.
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + pki + "/sa.pub",
		"--service-account-signing-key-file=" + pki + "/sa.key",
		"--service-cluster-ip-range=" + serviceRange, "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true", "--profiling=false",
	}
	if o.address.IsLoopback() {
		// A loopback address is refused as an endpoint of the Service "kubernetes", which nobody needs without real pods.
		args = append(args, "--bind-address="+o.address.String(), "--endpoint-reconciler-type=none")
	} else {
		args = append(args, "--bind-address=0.0.0.0", "--advertise-address="+o.address.String())
	}
	return append(args, o.apiserverArgs...)
}

// startControllers starts what makes pods of StatefulSets, gives them nodes, and removes what has no owner. The stock limit of 20 requests
// a second would make everything slow, even the start.
func startControllers(p *processes, o *options) error {
	pki := filepath.Join(o.dir, "pki")
	common := func(name string) []string {
		return []string{
			"--kubeconfig=" + filepath.Join(o.dir, name+".kubeconfig"), "--leader-elect=false", "--secure-port=0",
			"--kube-api-qps=2000", "--kube-api-burst=4000",
		}
	}
	args := append(common("kube-controller-manager"),
		"--service-account-private-key-file="+pki+"/sa.key", "--root-ca-file="+pki+"/ca.crt",
		"--cluster-signing-cert-file="+pki+"/ca.crt", "--cluster-signing-key-file="+pki+"/ca.key",
		"--use-service-account-credentials", "--controllers=*", "--concurrent-statefulset-syncs=20",
		// It would make the default one on this machine.
		"--flex-volume-plugin-dir="+filepath.Join(o.dir, "flex-volume"))
	if err := p.start("kube-controller-manager", append(args, o.controllerManagerArgs...)...); err != nil {
		return err
	}
	return p.start("kube-scheduler", common("kube-scheduler")...)
}

// startKwok starts kwok and makes its nodes, and a storage class whose volumes it pretends.
func startKwok(ctx context.Context, p *processes, o *options, kubeconfig string) error {
	err := p.start("kwok", "--kubeconfig="+kubeconfig, "--config="+filepath.Join(p.bin, "kwok-stages.yaml"), "--cidr=10.250.0.0/16",
		"--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds=40")
	if err != nil {
		return err
	}
	kubectl := func(in string, args ...string) error {
		cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "kubectl"), append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
		cmd.Stdin = strings.NewReader(in)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", args[0], err, bytes.TrimSpace(out))
		}
		return nil
	}
	if err := kubectl("", "apply", "-f", filepath.Join(p.bin, "kwok-storage-class.yaml")); err != nil {
		return err
	}
	var nodes strings.Builder
	for i := range o.kwok {
		fmt.Fprintf(&nodes, pretendedNode, i+1)
	}
	if err := kubectl(nodes.String(), "apply", "-f", "-"); err != nil {
		return err
	}
	return kubectl("", "wait", "node", "--selector=type=kwok", "--for=condition=Ready", "--timeout=120s")
}

const pretendedNode = `---
apiVersion: v1
kind: Node
metadata:
  name: fake-%[1]d
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {kubernetes.io/hostname: fake-%[1]d, kubernetes.io/os: linux, kubernetes.io/arch: amd64, type: kwok}
status:
  allocatable: {cpu: "256", memory: 1Ti, pods: "2000", devices.kubevirt.io/kvm: "2000", devices.kubevirt.io/tun: "2000"}
  capacity: {cpu: "256", memory: 1Ti, pods: "2000", devices.kubevirt.io/kvm: "2000", devices.kubevirt.io/tun: "2000"}
`

// freePorts returns TCP ports that nobody listens at now.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		port, err := freeport.Next()
		if err != nil {
			return nil, err
		}
		ports = append(ports, strconv.Itoa(port))
	}
	return ports, nil
}

// get succeeds if there is an answer, and it is 200.
func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, resp.Status)
	}
	return nil
}

// write writes a file that only its owner may read.
func write(path string, data []byte) error {
	return os.WriteFile(path, data, 0o600)
}
