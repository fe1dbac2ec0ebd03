package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // who logs in by OpenID Connect with kubectl does so here
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// vmResource is what the API server calls VirtualMachines.
var vmResource = schema.GroupVersionResource{Group: "vmoperator.jdrupes.org", Version: "v1", Resource: "vms"}

// namespaceResource are the namespaces.
var namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

const (
	// dialTimeout is how long a cluster may take to accept a connection: who has mistyped an address shall not wait for half a minute.
	dialTimeout = 10 * time.Second
	// answerTimeout is how long it may take to answer, with everything that a list may have.
	answerTimeout = time.Minute
	// completionTimeout is how long somebody who presses Tab may wait.
	completionTimeout = 3 * time.Second
)

// clusterFlags say which cluster a command is about, and which namespace of it, as kubectl's flags do.
type clusterFlags struct {
	kubeconfig string
	context    string
	namespace  string
}

func (f *clusterFlags) bind(cmd *cobra.Command) {
	f.bindCluster(cmd)
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "the namespace; without it that of the kubeconfig's context")
	completeFlag(cmd, "namespace", f.completeNamespace)
}

// bindCluster binds the flags for the cluster alone.
func (f *clusterFlags) bindCluster(cmd *cobra.Command) {
	bindText(cmd.Flags(), &f.kubeconfig, "kubeconfig", "the kubeconfig `FILE`; without it those of $KUBECONFIG, or ~/.kube/config")
	bindText(cmd.Flags(), &f.context, "context", "the kubeconfig's `CONTEXT` to use")
	completeFlag(cmd, "context", f.completeContext)
}

func bindText(flags *pflag.FlagSet, to *string, name, about string) {
	flags.StringVar(to, name, "", about)
}

// completeFlag registers a flag's completion. It fails only if there is no such flag, or another completion.
func completeFlag(cmd *cobra.Command, name string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic(err)
	}
}

// cluster is a Kubernetes cluster, and a namespace of it.
type cluster struct {
	// config is what to connect with. It has no limit on requests of its own: the API server shares out what it can do.
	config *rest.Config
	// namespace is the one that the user chose, or that of the context.
	namespace string
	// objects are those of all kinds. A request ends after answerTimeout.
	objects dynamic.Interface
}

// errNoCluster says that there is no cluster to ask.
var errNoCluster = errors.New("no cluster is configured; name a kubeconfig with --kubeconfig or in $KUBECONFIG")

// connect returns the cluster that the flags name. Nothing is sent before there is something to ask.
func (f *clusterFlags) connect(warnings io.Writer) (*cluster, error) {
	loader := f.loader()
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errNoCluster
	}
	if err != nil {
		return nil, f.badConfig(loader, err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, f.badConfig(loader, err)
	}
	config.UserAgent = "cuvee/" + version
	config.QPS = -1
	config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	config.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{Deduplicate: true})
	limited := rest.CopyConfig(config)
	limited.Timeout = answerTimeout
	objects, err := dynamic.NewForConfig(limited)
	if err != nil {
		return nil, f.badConfig(loader, err)
	}
	return &cluster{config: config, namespace: namespace, objects: objects}, nil
}

func (f *clusterFlags) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	// That files of $KUBECONFIG are not there is no fault for kubectl either.
	rules.WarnIfAllMissing = false
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.context}
	overrides.Context.Namespace = f.namespace
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
}

// badConfig says what is wrong with a kubeconfig, and which contexts there are if it is the name of one.
func (f *clusterFlags) badConfig(loader clientcmd.ClientConfig, err error) error {
	contexts := contextNames(loader)
	if f.context != "" && !slices.Contains(contexts, f.context) && len(contexts) > 0 {
		return fmt.Errorf("--context: there is no %q; %s", f.context, thereAre(f.context, contexts))
	}
	return fmt.Errorf("read the kubeconfig: %w", err)
}

func contextNames(loader clientcmd.ClientConfig) []string {
	raw, err := loader.RawConfig()
	if err != nil {
		return nil
	}
	var names []string
	for name := range raw.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// vms are the VirtualMachines of the namespace.
func (c *cluster) vms() dynamic.ResourceInterface { return c.in(vmResource) }

// in are the objects of a kind in the namespace.
func (c *cluster) in(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	return c.objects.Resource(resource).Namespace(c.namespace)
}

// names are those of the VMs in the namespace, sorted.
func (c *cluster) names(ctx context.Context) ([]string, error) {
	list, err := c.vms().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, vm := range list.Items {
		names = append(names, vm.GetName())
	}
	slices.Sort(names)
	return names, nil
}

// ---- Completion

func (f *clusterFlags) completeContext(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return withPrefix(contextNames(f.loader()), typed), cobra.ShellCompDirectiveNoFileComp
}

func (f *clusterFlags) completeNamespace(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	c, err := f.connect(io.Discard)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	list, err := c.objects.Resource(namespaceResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, namespace := range list.Items {
		names = append(names, namespace.GetName())
	}
	return withPrefix(names, typed), cobra.ShellCompDirectiveNoFileComp
}

// completeVMs completes the names of VMs that are not named yet.
func (f *clusterFlags) completeVMs(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	c, err := f.connect(io.Discard)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	names, err := c.names(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) })
	return withPrefix(names, typed), cobra.ShellCompDirectiveNoFileComp
}

func withPrefix(names []string, prefix string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
}
