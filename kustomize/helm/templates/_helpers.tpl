{{- /* The labels that Helm's charts have, beside those of the kustomizations. */ -}}
{{- define "cuvee.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /*
Whether this release makes an object of the whole cluster: not if it is there and is somebody else's, another release's or that of
"kubectl apply". It takes the context, and the object's apiVersion, kind and name.
*/ -}}
{{- define "cuvee.ofRelease" -}}
{{- $release := (index . 0).Release }}
{{- $there := lookup (index . 1) (index . 2) "" (index . 3) }}
{{- $annotations := dig "metadata" "annotations" dict $there }}
{{- if or (not $there) (and (eq (dig "meta.helm.sh/release-name" "" $annotations) $release.Name) (eq (dig "meta.helm.sh/release-namespace" "" $annotations) $release.Namespace)) }}true{{ end }}
{{- end }}
