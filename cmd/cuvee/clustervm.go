package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cuvee-vm/cuvee/runner/consoleclient"
)

var (
	podResource    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	secretResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// clusterVM is a place: a VM of a cluster. Its pod is reached by way of the API server, so nothing else of the cluster's network has to be.
type clusterVM struct {
	cluster *cluster
	name    string
}

func (v clusterVM) String() string { return v.cluster.namespace + "/" + v.name }

// errNotRunning says that a VM has no pod to connect to.
var errNotRunning = errors.New("does not run")

// consolePort is the annotation of a pod with the port of the VM's console.
const consolePort = "cuvee-vm.github.io/console-port"

func (v clusterVM) console(ctx context.Context) (*consoleclient.Endpoint, error) {
	pod, err := v.pod(ctx)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(pod.GetAnnotations()[consolePort])
	if err != nil {
		return nil, fmt.Errorf("%s: its pod serves no console (it has no annotation %s)", v, consolePort)
	}
	token, err := v.secret(ctx, v.name+"-console-token", "token")
	if err != nil {
		return nil, err
	}
	ca, err := v.secret(ctx, v.name+"-console-tls", "ca.crt")
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s: ca.crt of the Secret %s-console-tls is no certificate", v, v.name)
	}
	transport := &http.Transport{
		// Whatever it is that answers there: it is the VM's console, or it is not spoken to.
		TLSClientConfig:   &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return v.cluster.dialPod(ctx, pod.GetName(), port)
		},
	}
	// The name in the certificate, see docs/console.md.
	host := v.name + "." + v.cluster.namespace + ".vm.cuvee-vm.github.io"
	return consoleclient.New("https://"+host, &http.Client{Transport: bearer{token: string(token), next: transport}}), nil
}

// bearer shows a token with each request.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// pod is the VM's pod, which has a runner in it that can be connected to.
func (v clusterVM) pod(ctx context.Context) (*unstructured.Unstructured, error) {
	pod, err := v.cluster.in(podResource).Get(ctx, v.name+"-0", metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, v.whyNot(ctx)
	case err != nil:
		return nil, v.cluster.failed(err)
	case text(pod.Object, "status", "phase") != "Running":
		return nil, v.whyNot(ctx)
	}
	return pod, nil
}

// whyNot says why there is no pod to connect to: the VM does not run, or there is none.
func (v clusterVM) whyNot(ctx context.Context) error {
	vm, err := v.cluster.vm(ctx, v.name)
	if err != nil {
		return err
	}
	ready := conditionOf(vm.Object, "Ready")
	why := ready.reason
	if ready.message != "" {
		why += ": " + oneLine(ready.message)
	}
	if why == "" {
		why = "no manager has looked at it yet"
	}
	return fmt.Errorf("%s %w (%s)", v, errNotRunning, why)
}

// secret is the value of a key of a Secret in the VM's namespace.
func (v clusterVM) secret(ctx context.Context, name, key string) ([]byte, error) {
	secret, err := v.cluster.in(secretResource).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s: there is no Secret %s", v, name)
	}
	if err != nil {
		return nil, v.cluster.failed(err)
	}
	return secretValue(secret, key)
}

func secretValue(secret *unstructured.Unstructured, key string) ([]byte, error) {
	value, err := base64.StdEncoding.DecodeString(text(secret.Object, "data", key))
	if err != nil || len(value) == 0 {
		return nil, fmt.Errorf("the Secret %s/%s has nothing at %s", secret.GetNamespace(), secret.GetName(), key)
	}
	return value, nil
}

// display is what the VM's spec says, with its pod's address where it does not say which host to connect to. In the node's
// network that is the node's.
func (v clusterVM) display(ctx context.Context) (viewerFile, error) {
	vm, err := v.cluster.vm(ctx, v.name)
	if err != nil {
		return viewerFile{}, err
	}
	pod, err := v.pod(ctx)
	if err != nil {
		return viewerFile{}, err
	}
	port := spicePort(pod)
	if port == 0 {
		return viewerFile{}, errNoDisplay
	}
	f := viewerFile{title: v.name, host: textAt(vm.Object, "server"), port: strconv.Itoa(port), proxy: textAt(vm.Object, "proxyUrl")}
	if f.host == "" && f.proxy == "" {
		f.forward = func(ctx context.Context) (net.Conn, error) { return v.cluster.dialPod(ctx, pod.GetName(), port) }
	}
	if f.host == "" {
		f.host = text(pod.Object, "status", "podIP")
	}
	f.password, err = v.displayPassword(ctx)
	return f, err
}

// spicePort is the port that the pod's containers declare for SPICE, 0 if none does.
func spicePort(pod *unstructured.Unstructured) int {
	for _, container := range items(pod.Object, "spec", "containers") {
		for _, port := range items(container, "ports") {
			if text(port, "name") == "spice" {
				return int(number(port, "containerPort"))
			}
		}
	}
	return 0
}

// displayPassword is that of the Secret that the VM's labels lead to, "" if there is none. If there are several the first counts, as it
// does for the manager.
func (v clusterVM) displayPassword(ctx context.Context) (string, error) {
	selector := "app.kubernetes.io/name=vm-runner,app.kubernetes.io/component=display-secret,app.kubernetes.io/instance=" + v.name
	secrets, err := v.cluster.in(secretResource).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return "", v.cluster.failed(err)
	}
	if len(secrets.Items) == 0 {
		return "", nil
	}
	password, err := secretValue(&secrets.Items[0], "display-password")
	return string(password), err
}
