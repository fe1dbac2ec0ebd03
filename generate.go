package cuvee

// The definitions of the kinds for the API server, the tables of their fields for people, the dashboards for Grafana,
// and the Helm chart.
//
//go:generate go run ./cmd/cuvee crd -o kustomize/crd
//go:generate go run ./cmd/cuvee crd --group vitistack.io -o kustomize/crd/vitistack.io
//go:generate go run ./tools/fielddoc -o docs
//go:generate go tool cue export ./kustomize/components/grafana-dashboard -e manager -f -o kustomize/components/grafana-dashboard/cuvee-manager.json
//go:generate go tool cue export ./kustomize/components/grafana-dashboard -e vms -f -o kustomize/components/grafana-dashboard/cuvee-vms.json
//go:generate go run ./tools/chart
