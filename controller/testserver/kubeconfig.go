package testserver

import (
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes what a program connects with into a file.
func WriteKubeconfig(file string, config *rest.Config) error {
	const name = "test"
	c := api.NewConfig()
	c.Clusters[name] = &api.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	c.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	data, err := clientcmd.Write(*c)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return os.WriteFile(file, data, 0o600)
}
