# The images of Cuvee: the manager's, and the runner's, in which each VM's QEMU runs.
#
#   make images           builds them with docker, podman or buildah
#   make images-offline   builds them from this file, too, but takes the base from Debian packages and the programs from this
#                         machine's Go: no registry is asked. Tests use these.
#
#   docker build --target manager       -t cuvee-manager .
#   docker build --target runner        -t cuvee-runner  .
#   docker build --target runner-alpine -t cuvee-runner  .     (or runner-arch)

# What is built from. A site may have its own: --build-arg DEBIAN=…
ARG GO=golang:1.26-bookworm
ARG DEBIAN=debian:bookworm-slim
ARG ALPINE=alpine:3.22
ARG ARCH=archlinux:base

# ---- The programs: static, so they run in any of the images below.
FROM ${GO} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# What "cuvee-manager version" and the runner's log say.
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/ ./cmd/cuvee-manager ./cmd/cuvee-runner

# ---- The manager: one program, and nothing that could be started beside it.
FROM scratch AS manager
COPY --from=build /out/cuvee-manager /usr/bin/cuvee-manager
USER 65532:65532
ENTRYPOINT ["/usr/bin/cuvee-manager"]

# ---- The runner. Volumes are mounted in /run/cuvee, /etc/opt/vmrunner and /var/local, and all else is read only.
#
# Beside QEMU: disks and CDs on the web (qemu-block-extra, ca-certificates), firmware (ovmf, seabios), the TPM (swtpm, and swtpm-tools,
# which makes a new one), disk images (qemu-utils), and the time zones of a guest's clock (tzdata).
FROM ${DEBIAN} AS runner
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      qemu-system-x86 qemu-block-extra qemu-utils ovmf seabios swtpm swtpm-tools ca-certificates tzdata \
 && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* /usr/share/doc/* /usr/share/man/* /usr/share/locale/* \
 && echo 'runner:x:10777:10777::/:/usr/sbin/nologin' >>/etc/passwd \
 && echo 'runner:x:10777:' >>/etc/group \
 && mkdir -p /run/cuvee /etc/opt/vmrunner /var/local/vm-data /var/local/vmop-image-repository
COPY --from=build /out/cuvee-runner /usr/bin/cuvee-runner
USER 10777:10777
ENTRYPOINT ["/usr/bin/cuvee-runner"]

# ---- The same from Alpine's packages.
FROM ${ALPINE} AS runner-alpine
RUN apk add --no-cache qemu-system-x86_64 qemu-block-curl qemu-img qemu-ui-spice-core qemu-chardev-spice qemu-hw-display-qxl \
      qemu-hw-usb-redirect qemu-audio-spice ovmf seabios swtpm ca-certificates tzdata \
 && echo 'runner:x:10777:10777::/:/sbin/nologin' >>/etc/passwd \
 && echo 'runner:x:10777:' >>/etc/group \
 && mkdir -p /run/cuvee /etc/opt/vmrunner /var/local/vm-data /var/local/vmop-image-repository
COPY --from=build /out/cuvee-runner /usr/bin/cuvee-runner
USER 10777:10777
ENTRYPOINT ["/usr/bin/cuvee-runner"]

# ---- The same from Arch Linux' packages.
FROM ${ARCH} AS runner-arch
RUN pacman -Syu --noconfirm --needed qemu-system-x86 qemu-block-curl qemu-img qemu-ui-spice-core qemu-chardev-spice qemu-hw-display-qxl \
      qemu-hw-usb-redirect qemu-audio-spice edk2-ovmf seabios swtpm ca-certificates tzdata \
 && rm -rf /var/cache/pacman/pkg/* \
 && echo 'runner:x:10777:10777::/:/usr/bin/nologin' >>/etc/passwd \
 && echo 'runner:x:10777:' >>/etc/group \
 && mkdir -p /run/cuvee /etc/opt/vmrunner /var/local/vm-data /var/local/vmop-image-repository
COPY --from=build /out/cuvee-runner /usr/bin/cuvee-runner
USER 10777:10777
ENTRYPOINT ["/usr/bin/cuvee-runner"]
