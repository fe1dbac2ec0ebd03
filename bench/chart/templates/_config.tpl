{{- define "config.resolve" -}}
{{- $s := .Values.settings -}}
{{- $vm := mergeOverwrite (dict) $s.vm .Values.spec.vm -}}
"accelerator": {"kind":"accelerator","alternatives":[{"name":"kvm","cpu":{{ toJson $vm.cpuModel }}}]},
"machine": {"kind":"machine","keep":true,"alternatives":[{{ range $i, $m := $s.qemu.machines }}{{ if $i }},{{ end }}{"type":{{ toJson $m }}}{{ end }}]},
{{- $i := 0 }}
{{- range $vm.disks }}
{{- if hasKey . "volumeClaimTemplate" }}
"disk{{ $i }}": {"kind":"aio","path":{{ include "diskFile" (list $ $i .) | toJson }},"alternatives":[{{ range $n, $a := $s.disk.aio }}{{ if $n }},{{ end }}{"aio":{{ toJson $a }},"direct":"{{ ternary "off" "on" (eq $a "threads") }}"}{{ end }}]},
{{- $i = add1 $i }}
{{- end }}
{{- end }}
{{- if ne $vm.firmware "bios" }}
"firmware": {"kind":"firmware","keep":true,"alternatives":{{ toJson (get $s.firmware $vm.firmware) }}},
{{- end }}
{{- with $vm.machineUuid }}
"uuid": {"kind":"uuid","alternatives":[{"uuid":{{ lower . | toJson }}}]}
{{- else }}
"uuid": {"kind":"uuid","keep":true,"alternatives":[{"uuid":"{{ include "uuid" . }}"}]}
{{- end }}
{{- end -}}

{{- /* The file of the n-th disk: (list root index disk). */ -}}
{{- define "diskFile" -}}
{{- $s := (index . 0).Values.settings -}}
{{- $disk := index . 2 -}}
{{- $name := include "diskName" (list (index . 1) $disk) -}}
{{- if eq (default $s.disk.volumeMode $disk.volumeClaimTemplate.spec.volumeMode) "Block" -}}
/dev/{{ $name }}
{{- else -}}
{{ $s.paths.disks }}/{{ $name }}/disk.img
{{- end -}}
{{- end -}}

{{- define "config.boot" -}}
{{- $s := .Values.settings -}}
{{- $vm := mergeOverwrite (dict) $s.vm .Values.spec.vm -}}
"name": {{ toJson .Values.metadata.name }},
"namespace": {{ toJson .Values.metadata.namespace }},
"binaries": {{ toJson $s.qemu.binaries }},
"dataDir": {{ toJson $s.paths.data }},
"runtimeDir": {{ toJson $s.paths.runtime }},
{{- if ne $vm.firmware "bios" }}
"firmware": {"choice":"firmware","kind":{{ toJson $vm.firmware }},"vars":"{{ $s.paths.data }}/fw-vars.fd"},
{{- end }}
{{- if $vm.useTpm }}
"tpm": {"state":{{ toJson $s.paths.data }},"socket":"{{ $s.paths.runtime }}/swtpm.sock"},
{{- end }}
{{- if .Values.spec.cloudInit }}
"noCloud": {"image":"{{ $s.paths.runtime }}/cloud-init.img","files":{"meta-data":"{{ $s.paths.config }}/cloud-init/meta-data","user-data":"{{ $s.paths.config }}/cloud-init/user-data","network-config":"{{ $s.paths.config }}/cloud-init/network-config"}},
{{- end }}
{{- if include "bridged" . }}
{{- $taps := list }}
{{- range $i, $n := $vm.networks }}
{{- if hasKey $n "tap" }}
{{- $taps = append $taps (dict "fd" (printf "net%d" $i) "bridge" (default $s.vm.bridge $n.tap.bridge)) }}
{{- end }}
{{- end }}
"taps": {{ toJson $taps }},
"user": {"uid":{{ $s.pod.user }},"gid":{{ $s.pod.user }},"groups":{{ toJson $s.pod.supplementalGroups }}},
{{- end }}
{{- $i := 0 }}
{{- $images := list }}
{{- range $vm.disks }}
{{- if hasKey . "volumeClaimTemplate" }}
{{- if ne (default $s.disk.volumeMode .volumeClaimTemplate.spec.volumeMode) "Block" }}
{{- $images = append $images (dict "path" (include "diskFile" (list $ $i .)) "disk" (printf "disk%d" $i)) }}
{{- end }}
{{- $i = add1 $i }}
{{- end }}
{{- end }}
{{- if lt (len $images) $i }}
"lease": {"name":"{{ .Values.metadata.name }}-disks","duration":{{ $s.disk.lease.duration }}},
{{- end }}
{{- with $images }}
"images": {{ toJson . }},
{{- end }}
"args": [
{{- include "config.args" . | nindent 2 }}
]
{{- end -}}

{{- define "config.args" -}}
{{- $s := .Values.settings -}}
{{- $vm := mergeOverwrite (dict) $s.vm .Values.spec.vm -}}
{{- $slots := list "1.0" "2.0" "3.0" "4.0" "5.0" "6.0" "7.0" "8.0" "9.0" "a.0" "b.0" "c.0" "d.0" "e.0" "f.0" "10.0" "11.0" "12.0" "13.0" "14.0" "15.0" "16.0" "17.0" "18.0" "19.0" "1a.0" "1b.0" "1c.0" "1d.0" "1.0" -}}
{{- $free := ternary 0 1 (not (empty $vm.networks)) | int -}}
{{- $ram := include "bytes" $vm.maximumRam | int64 -}}
{{- $secure := or (eq $vm.firmware "secure") (eq $vm.firmware "secure-4m") -}}
{"option":"S"},
{"option":"no-user-config"},
{"option":"nodefaults"},
{"option":"sandbox","keys":{"enable":"on","obsolete":"deny","elevateprivileges":"deny","spawn":"deny","resourcecontrol":"deny"}},
{"option":"name","keys":{"guest":{{ toJson .Values.metadata.name }},"debug-threads":"on"}},
{"option":"uuid","value":{"resolve":"uuid.uuid"}},
{"option":"machine","keys":{"type":{"resolve":"machine.type"},"usb":"off","vmport":"off","dump-guest-core":"off","hpet":"off","memory-backend":"pc.ram"{{ if ne $vm.firmware "bios" }},"pflash0":"fw-rom","pflash1":"fw-vars"{{ end }}{{ if $secure }},"smm":"on"{{ end }}}},
{"option":"accel","keys":{"accel":{"resolve":"accelerator.name"}}},
{"option":"global","keys":{"driver":"kvm-pit","property":"lost_tick_policy","value":"delay"}},
{"option":"global","keys":{"driver":"ICH9-LPC","property":"disable_s3","value":"1"}},
{"option":"global","keys":{"driver":"ICH9-LPC","property":"disable_s4","value":"1"}},
{"option":"mon","keys":{"chardev":"monitor","mode":"control"}},
{"option":"display","value":"none"},
{"option":"vnc","value":"none","keys":{"share":"force-shared"}},
{"option":"smp","keys":{"cpus":1,"maxcpus":{{ $vm.maximumCpus }}}},
{"option":"cpu","value":{"resolve":"accelerator.cpu"},"keys":{}},
{"option":"rtc","keys":{"base":{{ toJson $vm.rtcBase }},"clock":{{ toJson $vm.rtcClock }},"driftfix":"slew"}},
{"option":"m","keys":{"size":"{{ div $ram 1048576 }}M"}},
{{- if $vm.bootMenu }}
{"option":"boot","keys":{"menu":"on"}},
{{- end }}
{{- if $secure }}
{"option":"global","keys":{"driver":"cfi.pflash01","property":"secure","value":"on"}},
{{- end }}
{"option":"chardev","keys":{"backend":"socket","id":"monitor","fd":{"fd":"qmp"}}},
{"option":"chardev","keys":{"backend":"socket","id":"serial0","fd":{"fd":"serial0"}}},
{"option":"chardev","keys":{"backend":"socket","id":"guestAgent","fd":{"fd":"guest-agent"}}},
{"option":"chardev","keys":{"backend":"socket","id":"vmopAgent","fd":{"fd":"vmop-agent"}}},
{{- if $vm.useTpm }}
{"option":"chardev","keys":{"backend":"socket","id":"tpm","path":"{{ $s.paths.runtime }}/swtpm.sock"}},
{"option":"tpmdev","keys":{"type":"emulator","id":"tpm0","chardev":"tpm"}},
{"option":"device","json":{"driver":"tpm-tis","id":"tpm","tpmdev":"tpm0"}},
{{- end }}
{"option":"object","json":{"qom-type":"rng-random","id":"rng","filename":"/dev/urandom"}},
{"option":"object","json":{"qom-type":"memory-backend-ram","id":"pc.ram","size":{{ mul (div $ram 1048576) 1048576 }}}},
{{- if ne $vm.firmware "bios" }}
{"option":"blockdev","json":{"driver":"raw","node-name":"fw-rom","read-only":true,"file":{"driver":"file","filename":{"resolve":"firmware.code"},"auto-read-only":true}}},
{"option":"blockdev","json":{"driver":"raw","node-name":"fw-vars","read-only":false,"file":{"driver":"file","filename":"{{ $s.paths.data }}/fw-vars.fd"}}},
{{- end }}
{"option":"device","json":{"driver":"intel-iommu","id":"iommu","device-iotlb":true}},
{"option":"device","json":{"driver":"virtio-serial-pci","id":"virtioSerial","addr":"{{ index $slots (int (add $free 1)) }}"}},
{"option":"device","json":{"driver":"qemu-xhci","id":"usb","p2":15,"p3":15,"addr":"{{ index $slots (int (add $free 2)) }}"}},
{"option":"device","json":{"driver":"ich9-intel-hda","id":"sound","addr":"{{ index $slots (int (add $free 5)) }}"}},
{{- range $i := until (int $s.qemu.hotplugPorts) }}
{"option":"device","json":{"driver":"pcie-root-port","id":"port{{ $i }}","chassis":{{ add1 $i }},"addr":"1e.{{ $i }}"{{ if not $i }},"multifunction":true{{ end }}}},
{{- end }}
{"option":"device","json":{"driver":"isa-serial","id":"serial","chardev":"serial0","index":0}},
{"option":"device","json":{"driver":"virtserialport","id":"guestAgent","bus":"virtioSerial.0","nr":1,"name":"org.qemu.guest_agent.0","chardev":"guestAgent"}},
{"option":"device","json":{"driver":"virtserialport","id":"vmopAgent","bus":"virtioSerial.0","nr":2,"name":"org.jdrupes.vmop_agent.0","chardev":"vmopAgent"}},
{"option":"device","json":{"driver":"usb-tablet","id":"tablet","bus":"usb.0","port":"1"}},
{"option":"device","json":{"driver":"virtio-rng-pci","id":"rng","rng":"rng","addr":"{{ index $slots (int (add $free 3)) }}"}},
{{- if include "spice" . }}
{{- $spice := default dict ($vm.display).spice }}
{"option":"spice","keys":{"port":{{ default 5900 $spice.port }},"disable-ticketing":"off","seamless-migration":"on"{{ with $spice.streamingVideo }},"streaming-video":{{ toJson . }}{{ end }}}},
{"option":"chardev","keys":{"backend":"spicevmc","id":"vdagent","name":"vdagent"}},
{"option":"device","json":{"driver":"virtserialport","id":"vdagent","bus":"virtioSerial.0","nr":3,"name":"com.redhat.spice.0","chardev":"vdagent"}},
{"option":"audiodev","json":{"driver":"spice","id":"audio"}},
{"option":"device","json":{"driver":"hda-duplex","id":"speaker","bus":"sound.0","audiodev":"audio"}},
{{- range $i := until (int (ternary $spice.usbRedirects 2 (hasKey $spice "usbRedirects"))) }}
{"option":"chardev","keys":{"backend":"spicevmc","id":"usbRedirect{{ $i }}","name":"usbredir"}},
{"option":"device","json":{"driver":"usb-redir","id":"usbRedirect{{ $i }}","bus":"usb.0","port":"{{ add $i 2 }}","chardev":"usbRedirect{{ $i }}"}},
{{- end }}
{{- end }}
{{- range $i, $n := $vm.networks }}
{{- $type := ternary "tap" "user" (hasKey $n "tap") }}
{{- $own := default dict (get $n $type) }}
{{- $device := default $s.vm.networkDevice $own.device }}
{"option":"netdev","json":{"type":"{{ $type }}","id":"net{{ $i }}"{{ if eq $type "tap" }},"fd":{"fd":"net{{ $i }}"}{{ end }}{{ with $own.net }},"net":{{ toJson . }}{{ end }}}},
{"option":"device","json":{"driver":{{ ternary "virtio-net-pci" $device (eq $device "virtio-net") | toJson }},"id":"net{{ $i }}","netdev":"net{{ $i }}","mac":{{ default (include "mac" (list $ $i)) $own.mac | lower | toJson }},"addr":"{{ index $slots (int (add $free 6 $i)) }}"}},
{{- end }}
{{- $first := len (default list $vm.networks) }}
{{- $i := 0 }}
{{- $cd := 0 }}
{{- range $vm.disks }}
{{- if hasKey . "cdrom" }}
{"option":"device","json":{"driver":"ide-cd","id":"cd{{ $cd }}","bus":"ide.{{ $cd }}"{{ if hasKey . "bootindex" }},"bootindex":{{ .bootindex }}{{ end }}}},
{{- $cd = add1 $cd }}
{{- else }}
{{- $block := eq (default $s.disk.volumeMode .volumeClaimTemplate.spec.volumeMode) "Block" }}
{"option":"blockdev","json":{"driver":"raw","node-name":"disk{{ $i }}","discard":"unmap","detect-zeroes":{{ toJson $s.disk.detectZeroes }},"file":{"driver":"{{ ternary "host_device" "file" $block }}","filename":{{ include "diskFile" (list $ $i .) | toJson }},"aio":{"resolve":"disk{{ $i }}.aio"},"discard":"unmap","cache":{"direct":{"resolve":"disk{{ $i }}.direct"},"no-flush":false}}}},
{"option":"device","json":{"driver":"virtio-blk-pci","id":"disk{{ $i }}","drive":"disk{{ $i }}","serial":{{ include "diskSerial" (include "diskName" (list $i .)) | toJson }},"addr":"{{ index $slots (int (add $free 6 $first $i)) }}"{{ if hasKey . "bootindex" }},"bootindex":{{ .bootindex }}{{ end }},"rerror":{{ toJson $s.disk.onError }},"werror":{{ toJson $s.disk.onError }},"iothread":"io0"}},
{{- $i = add1 $i }}
{{- end }}
{{- end }}
{{- if $i }}
{"option":"object","json":{"qom-type":"iothread","id":"io0"}},
{{- end }}
{{- if .Values.spec.cloudInit }}
{"option":"blockdev","json":{"driver":"raw","node-name":"cloudInit","read-only":true,"file":{"driver":"file","filename":"{{ $s.paths.runtime }}/cloud-init.img"}}},
{"option":"device","json":{"driver":"virtio-blk-pci","id":"cloudInit","drive":"cloudInit","serial":"cloud-init","addr":"{{ index $slots (int (add $free 6 $first $i)) }}"}},
{{- end }}
{{- $outputs := default 1 ($vm.display).outputs }}
{"option":"device","json":{"driver":"virtio-vga","id":"video","max_outputs":{{ $outputs }},"max_hostmem":{{ mul $outputs 268435456 }},"addr":"{{ index $slots (int (add $free 4)) }}"}},
{"option":"device","json":{"driver":"virtio-balloon-pci","id":"balloon","addr":"{{ index $slots (int (add $free 0)) }}"}}
{{- end -}}

{{- define "config.live" -}}
{{- $s := .Values.settings -}}
{{- $vm := mergeOverwrite (dict) $s.vm .Values.spec.vm -}}
{{- $cdroms := dict }}
{{- range $vm.disks }}
{{- if hasKey . "cdrom" }}
{{- $medium := "" }}
{{- if .cdrom.image }}
{{- $file := ternary .cdrom.image (printf "%s/%s" $s.paths.images .cdrom.image) (hasPrefix "/" .cdrom.image) }}
{{- $medium = dict "driver" "raw" "read-only" true "file" (dict "driver" "file" "filename" $file) }}
{{- end }}
{{- $_ := set $cdroms (printf "cd%d" (len $cdroms)) $medium }}
{{- end }}
{{- end }}
{{- with $cdroms }}
"cdroms": {{ toJson . }},
{{- end }}
{{- if include "spice" . }}
"display": {"protocol":"spice","passwordFile":"{{ $s.paths.config }}/display-password","expiryFile":"{{ $s.paths.config }}/password-expiry"},
{{- end }}
{{- $disks := dict }}
{{- range $vm.disks }}
{{- if hasKey . "volumeClaimTemplate" }}
{{- $live := dict }}
{{- if ne (default $s.disk.volumeMode .volumeClaimTemplate.spec.volumeMode) "Block" }}
{{- $bytes := include "bytes" .volumeClaimTemplate.spec.resources.requests.storage | int64 }}
{{- $_ := set $live "size" (mul (div (mul $bytes (sub 100 $s.disk.filesystemReserve)) 104857600) 1048576) }}
{{- end }}
{{- $_ := set $disks (printf "disk%d" (len $disks)) $live }}
{{- end }}
{{- end }}
{{- with $disks }}
"disks": {{ toJson . }},
{{- end }}
{{- $networks := dict }}
{{- range $i, $n := $vm.networks }}
{{- $_ := set $networks (printf "net%d" $i) (dict "link" (default "up" $n.link)) }}
{{- end }}
{{- with $networks }}
"networks": {{ toJson . }},
{{- end }}
"currentCpus": {{ default $vm.maximumCpus $vm.currentCpus }},
"currentRam": {{ include "bytes" (default $vm.maximumRam $vm.currentRam) }},
"powerdownTimeout": {{ $vm.powerdownTimeout }},
"guestShutdownStops": {{ ternary .Values.spec.guestShutdownStops $s.vm.guestShutdownStops (hasKey .Values.spec "guestShutdownStops") }}
{{- end -}}

{{- define "config.why" -}}
{{- $s := .Values.settings -}}
{{- $vm := mergeOverwrite (dict) $s.vm .Values.spec.vm -}}
{{- $disks := list }}
{{- $cdroms := list }}
{{- range $vm.disks }}
{{- $entry := dict }}
{{- if hasKey . "bootindex" }}
{{- $_ := set $entry "bootindex" .bootindex }}
{{- end }}
{{- if hasKey . "cdrom" }}
{{- $cdroms = append $cdroms $entry }}
{{- else }}
{{- $_ := set $entry "name" (include "diskName" (list (len $disks) .)) }}
{{- $_ := set $entry "mode" (default $s.disk.volumeMode .volumeClaimTemplate.spec.volumeMode) }}
{{- $disks = append $disks $entry }}
{{- end }}
{{- end }}
{{- with $disks }}
"spec.vm.disks": {{ toJson . }},
{{- end }}
{{- with $cdroms }}
"spec.vm.disks.cdrom": {{ toJson . }},
{{- end }}
{{- $networks := list }}
{{- range $i, $n := $vm.networks }}
{{- $type := ternary "tap" "user" (hasKey $n "tap") }}
{{- $own := default dict (get $n $type) }}
{{- $entry := dict "type" $type "device" (default $s.vm.networkDevice $own.device) "mac" (default (include "mac" (list $ $i)) $own.mac | lower) }}
{{- if eq $type "tap" }}
{{- $_ := set $entry "bridge" (default $s.vm.bridge $own.bridge) }}
{{- end }}
{{- with $own.net }}
{{- $_ := set $entry "net" . }}
{{- end }}
{{- $networks = append $networks $entry }}
{{- end }}
{{- with $networks }}
"spec.vm.networks": {{ toJson . }},
{{- end }}
{{- if .Values.spec.cloudInit }}
"spec.cloudInit": true,
{{- end }}
{{- $display := dict "outputs" (default 1 ($vm.display).outputs) }}
{{- if include "spice" . }}
{{- $_ := set $display "spice" (merge (pick (default dict ($vm.display).spice) "port" "usbRedirects" "streamingVideo") (dict "port" 5900 "usbRedirects" 2 "password" true)) }}
{{- end }}
"spec.vm.display": {{ toJson $display }},
{{- with $vm.machineUuid }}
"spec.vm.machineUuid": {{ toJson . }},
{{- end }}
"spec.vm.firmware": {{ toJson $vm.firmware }},
"spec.vm.bootMenu": {{ $vm.bootMenu }},
"spec.vm.useTpm": {{ $vm.useTpm }},
"spec.vm.rtcBase": {{ toJson $vm.rtcBase }},
"spec.vm.rtcClock": {{ toJson $vm.rtcClock }},
"spec.vm.cpuModel": {{ toJson $vm.cpuModel }},
"spec.vm.maximumCpus": {{ $vm.maximumCpus }},
"spec.vm.maximumRam": {{ toJson $vm.maximumRam }}
{{- end -}}
