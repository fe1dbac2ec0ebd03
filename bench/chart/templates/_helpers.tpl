{{- define "labels" -}}
app.kubernetes.io/name: vm-runner
app.kubernetes.io/instance: {{ .Values.metadata.name }}
app.kubernetes.io/managed-by: vm-operator
{{- end -}}

{{- define "owner" -}}
{{- if .Values.metadata.uid -}}
ownerReferences:
  - apiVersion: {{ .Values.apiVersion }}
    kind: {{ .Values.kind }}
    name: {{ .Values.metadata.name }}
    uid: {{ .Values.metadata.uid }}
    controller: true
    blockOwnerDeletion: true
{{- end -}}
{{- end -}}

{{- /* The bytes of a quantity such as 8Gi. */ -}}
{{- define "bytes" -}}
{{- $factors := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- mulf (regexFind "^[0-9.]+" .) (get $factors (regexFind "[A-Za-z]*$" .)) | int64 -}}
{{- end -}}

{{- /* The name of the n-th disk: (list index disk). */ -}}
{{- define "diskName" -}}
{{- $disk := index . 1 -}}
{{- with ($disk.volumeClaimTemplate.metadata).name -}}{{ . }}-disk{{- else -}}disk-{{ index . 0 }}{{- end -}}
{{- end -}}

{{- define "diskSerial" -}}
{{- if le (len .) 20 }}{{ . }}{{ else }}{{ substr 0 13 . }}-{{ substr 0 6 (sha256sum .) }}{{ end -}}
{{- end -}}

{{- /* The address of the n-th interface: (list root index). */ -}}
{{- define "mac" -}}
{{- $root := index . 0 -}}
{{- $h := sha256sum (printf "mac/%s/%s/%d" (default "default" $root.Values.metadata.namespace) $root.Values.metadata.name (int (index . 1))) -}}
02:{{ substr 0 2 $h }}:{{ substr 2 4 $h }}:{{ substr 4 6 $h }}:{{ substr 6 8 $h }}:{{ substr 8 10 $h }}
{{- end -}}

{{- define "uuid" -}}
{{- $h := sha256sum (printf "uuid/%s/%s" (default "default" .Values.metadata.namespace) .Values.metadata.name) -}}
{{ substr 0 8 $h }}-{{ substr 8 12 $h }}-8{{ substr 13 16 $h }}-8{{ substr 17 20 $h }}-{{ substr 20 32 $h }}
{{- end -}}

{{- define "bridged" -}}
{{- range .Values.spec.vm.networks }}{{ if hasKey . "tap" }}true{{ end }}{{ end -}}
{{- end -}}

{{- define "spice" -}}
{{- $vm := .Values.spec.vm -}}
{{- if not (hasKey $vm "display") }}true{{ else if hasKey $vm.display "spice" }}true{{ end -}}
{{- end -}}
