package controller_test

import (
	"encoding/base64"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const userSecret = `
apiVersion: v1
kind: Secret
metadata: {name: %s, labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/component: display-secret, app.kubernetes.io/instance: web}}
data: {display-password: bWluZQ==}
`

// displaySecrets are the Secrets in the pod's volume, of those of displays.
func (c *cluster) displaySecrets() string {
	var out []string
	volumes, _ := at(c.get("apps/v1", "StatefulSet", "web"), "spec", "template", "spec", "volumes").([]any)
	for _, v := range volumes {
		projected, _ := v.(map[string]any)["projected"].(map[string]any)
		sources, _ := projected["sources"].([]any)
		for _, s := range sources {
			secret, _ := s.(map[string]any)["secret"].(map[string]any)
			if name, _ := secret["name"].(string); strings.Contains(name, "display") || strings.Contains(name, "mine") {
				out = append(out, name)
			}
		}
	}
	return strings.Join(out, " ")
}

func (c *cluster) untilDisplaySecret(want string) {
	c.Helper()
	c.eventually(func() string {
		if got := c.displaySecrets(); got != want {
			return "the pod gets " + got + ", want " + want
		}
		return ""
	})
}

// A VM without a Secret for its display gets one, whose password is random, and is the user's from then on.
func TestDisplaySecretIsMade(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.create(vmManifest, "other")
	c.applied("web")
	c.applied("other")
	c.untilDisplaySecret("web-display-secret")
	password := func(vm string) string {
		text, _ := at(c.get("v1", "Secret", vm+"-display-secret"), "data", "display-password").(string)
		data, err := base64.StdEncoding.DecodeString(text)
		c.must(err)
		return string(data)
	}
	made := password("web")
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(made) || made == password("other") {
		t.Errorf("the passwords are %q and %q, want random ones", made, password("other"))
	}
	c.patch("v1", "Secret", "web-display-secret", `{"data":{"display-password":"bWluZQ=="}}`)
	c.quiet()
	if got := password("web"); got != "mine" {
		t.Errorf("the password that was changed is %q", got)
	}
	c.patchVM(`{"spec":{"vm":{"display":{}}}}`)
	c.untilDisplaySecret("")
	c.quiet()
	if c.get("v1", "Secret", "web-display-secret") == nil {
		t.Error("the Secret has gone with the display")
	}
}

// A user's own Secret is found by its labels, used as it is, and never touched; one that comes or goes later is followed.
func TestDisplaySecretOfUser(t *testing.T) {
	c := newCluster(t)
	version := c.create(userSecret, "mine").GetResourceVersion()
	c.create(vmManifest, "web")
	c.applied("web")
	c.untilDisplaySecret("mine")
	c.quiet()
	if c.get("v1", "Secret", "web-display-secret") != nil {
		t.Error("there is another Secret beside the user's")
	}
	if got := c.get("v1", "Secret", "mine").GetResourceVersion(); got != version {
		t.Error("the user's Secret was changed")
	}
	c.waitFor("web", "DisplaySecretUnique", "True", "AtMostOne")

	// The first by name is used, and it is said that there are others.
	c.create(userSecret, "a-mine")
	c.untilDisplaySecret("a-mine")
	if m := c.waitFor("web", "DisplaySecretUnique", "False", "SeveralSecrets"); !strings.Contains(m, "a-mine is used, not mine") {
		t.Errorf("the message does not say which Secret is used: %s", m)
	}
	for _, name := range []string{"a-mine", "mine"} {
		c.must(api.Delete(t.Context(), c.get("v1", "Secret", name)))
	}
	c.untilDisplaySecret("web-display-secret")
	c.waitFor("web", "DisplaySecretUnique", "True", "AtMostOne")
	c.create(userSecret, "mine")
	c.untilDisplaySecret("mine")
	c.waitFor("web", "DisplaySecretUnique", "False", "SeveralSecrets")

	c.must(api.Delete(t.Context(), c.vm("web")))
	c.eventually(func() string {
		if c.vm("web") != nil {
			return "the VM is still there"
		}
		return ""
	})
	if c.get("v1", "Secret", "mine") == nil {
		t.Error("the user's Secret has gone with the VM")
	}
}

// A changed Secret is news for the pod that runs, and nothing for the pod's template: no VM restarts for a password.
func TestDisplaySecretIsChanged(t *testing.T) {
	c := newCluster(t)
	c.create(userSecret, "mine")
	c.create(vmManifest, "web")
	c.applied("web")
	c.create(podManifest, "web")
	c.podStatus(running)
	c.waitFor("web", "Ready", "False", "GuestStarting")
	annotation := func() string { return c.get("v1", "Pod", "web-0").GetAnnotations()["cuvee-vm.github.io/config"] }
	c.eventually(func() string {
		if annotation() == "" {
			return "the pod has no annotation"
		}
		return ""
	})
	c.quiet()
	last, generation := annotation(), c.get("apps/v1", "StatefulSet", "web").GetGeneration()
	c.must(api.Patch(t.Context(), c.get("v1", "Secret", "mine"), client.RawPatch("application/merge-patch+json", []byte(`{"data":{"display-password":"eA=="}}`))))
	c.eventually(func() string {
		if annotation() == last {
			return "the pod is not told"
		}
		return ""
	})
	c.quiet()
	if now := c.get("apps/v1", "StatefulSet", "web").GetGeneration(); now != generation {
		t.Errorf("the StatefulSet was generation %d and is %d", generation, now)
	}
}
