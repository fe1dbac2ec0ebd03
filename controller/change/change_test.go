package change_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee/controller/change"
)

func TestFields(t *testing.T) {
	for name, tc := range map[string]struct {
		reason                string
		entry, live, rendered string
		want                  []change.Field
	}{
		"Same": {
			reason:   "defaults, and what others have written, are no difference",
			entry:    `{"f:spec":{"f:replicas":{}}}`,
			live:     `{spec: {replicas: 1, podManagementPolicy: OrderedReady}, status: {replicas: 1}, metadata: {labels: {of: others}}}`,
			rendered: `{spec: {replicas: 1}}`,
		},
		"Changed": {
			entry:    `{"f:spec":{"f:replicas":{}}}`,
			live:     `{spec: {replicas: 1}}`,
			rendered: `{spec: {replicas: 0}}`,
			want:     []change.Field{{Path: "spec.replicas", Old: 1.0, New: 0.0}},
		},
		"Added": {
			live:     `{metadata: {}}`,
			rendered: `{metadata: {labels: {"a.b/c": d}}}`,
			want:     []change.Field{{Path: "metadata.labels", New: map[string]any{"a.b/c": "d"}}},
		},
		"RemovedIfApplied": {
			reason:   "what was applied and is not rendered goes, what somebody else has set stays",
			entry:    `{"f:metadata":{"f:labels":{"f:a":{}}}}`,
			live:     `{metadata: {labels: {a: ours, b: theirs}}}`,
			rendered: `{}`,
			want:     []change.Field{{Path: "metadata.labels.a", Old: "ours"}},
		},
		"ItemsByKeys": {
			entry:    `{"f:containers":{"k:{\"name\":\"vm\"}":{".":{},"f:name":{},"f:image":{}},"k:{\"name\":\"old\"}":{".":{},"f:name":{}}}}`,
			live:     `{containers: [{name: sidecar, image: theirs}, {name: old}, {name: vm, image: a, terminationMessagePath: /dev/x}]}`,
			rendered: `{containers: [{name: vm, image: b}, {name: new}]}`,
			want: []change.Field{
				{Path: "containers[new]", New: map[string]any{"name": "new"}},
				{Path: "containers[old]", Old: map[string]any{"name": "old"}},
				{Path: "containers[vm].image", Old: "a", New: "b"},
			},
		},
		"Atomic": {
			reason:   "an atomic value is replaced as a whole",
			entry:    `{"f:nodeSelector":{},"f:command":{}}`,
			live:     `{nodeSelector: {a: x, b: x}, command: [one]}`,
			rendered: `{nodeSelector: {a: x}, command: [one, two]}`,
			want: []change.Field{
				{Path: "command[]", New: "two"},
				{Path: "nodeSelector.b", Old: "x"},
			},
		},
		"DefaultsOfTheServer": {
			reason:   "what the API server fills into a value that is owned as a whole is no difference",
			entry:    `{"f:env":{"k:{\"name\":\"POD\"}":{".":{},"f:name":{},"f:valueFrom":{"f:fieldRef":{}}}},"f:sources":{}}`,
			live:     `{env: [{name: POD, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: a}}}], sources: [{serviceAccountToken: {path: t, expirationSeconds: 3600}}]}`,
			rendered: `{env: [{name: POD, valueFrom: {fieldRef: {fieldPath: b}}}], sources: [{serviceAccountToken: {path: t}}]}`,
			want:     []change.Field{{Path: "env[POD].valueFrom.fieldRef.fieldPath", Old: "a", New: "b"}},
		},
		"Quantities": {
			reason:   "the API server writes quantities in its own way; other texts are what they are",
			entry:    `{"f:resources":{"f:requests":{"f:cpu":{},"f:memory":{}}},"f:label":{}}`,
			live:     `{resources: {requests: {cpu: "1", memory: 1Gi}}, label: "1"}`,
			rendered: `{resources: {requests: {cpu: 1000m, memory: 2Gi}}, label: "1.0"}`,
			want: []change.Field{
				{Path: "label", Old: "1", New: "1.0"},
				{Path: "resources.requests.memory", Old: "1Gi", New: "2Gi"},
			},
		},
		"Document": {
			reason:   "a text that is JSON is compared by what it says, options of QEMU one by one",
			entry:    `{"f:data":{"f:config.json":{}}}`,
			live:     `{data: {config.json: '{"live": {"cpus": 2}, "args": [{"option": "m", "value": "1G"}, {"option": "device", "json": {"id": "d0", "a": 1}}]}'}}`,
			rendered: `{data: {config.json: '{"live": {"cpus": 4}, "args": [{"option": "device", "json": {"id": "d0", "a": 2}}, {"option": "device", "json": {"id": "d1"}}, {"option": "m", "value": "1G"}]}'}}`,
			want: []change.Field{
				{Path: `data["config.json"].args[device d0].json.a`, Old: 1.0, New: 2.0},
				{Path: `data["config.json"].args[device d1]`, New: map[string]any{"option": "device", "json": map[string]any{"id": "d1"}}},
				{Path: `data["config.json"].live.cpus`, Old: 2.0, New: 4.0},
			},
		},
		"SecretsAreNotTold": {
			entry:    `{"f:data":{"f:a":{},"f:b":{}}}`,
			live:     `{apiVersion: v1, kind: Secret, data: {a: b2xk, b: b2xk}, type: Opaque}`,
			rendered: `{apiVersion: v1, kind: Secret, data: {a: bmV3, c: bmV3}, type: Opaque}`,
			want: []change.Field{
				{Path: "data.a", Old: "(secret)", New: "(secret)"},
				{Path: "data.b", Old: "(secret)"},
				{Path: "data.c", New: "(secret)"},
			},
		},
		"SecretsAreNotToldAsAWhole": {
			live:     `{apiVersion: v1, kind: Secret}`,
			rendered: `{apiVersion: v1, kind: Secret, data: {a: bmV3}}`,
			want:     []change.Field{{Path: "data", New: "(secret)"}},
		},
		"MarksOfTheEngine": {
			live:     `{metadata: {annotations: {cuvee-vm.github.io/hash: a}, uid: u}}`,
			rendered: `{metadata: {annotations: {cuvee-vm.github.io/hash: b}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := change.Fields([]byte(tc.entry), object(t, tc.live), object(t, tc.rendered))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
