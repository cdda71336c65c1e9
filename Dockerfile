# Homeward's image, for any engine with BuildKit:
#
#   docker buildx build --platform linux/amd64,linux/arm64 .
#
# `make image` does that with an engine, and without one makes an image of its own from the
# last stage below, which is the one place where it is said what the image is: see
# internal/tools/release/image. --build-arg VARIANT=homeward-cloud has the drivers of clouds.

# Its own architecture compiles for all: Go needs no emulation for that.
ARG GO_IMAGE=golang:1.26.8-bookworm@sha256:a688600ca24f8a4d3ca77f95b0dd40704a9fc787c826660eb7ba0b641b8b175d
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH
ARG VARIANT=homeward VERSION=dev COMMIT= DATE=
# /tmp is where a reconciliation and a proof of the books spread out what they compare.
RUN mkdir -p /rootfs/etc/ssl/certs && mkdir -m 1777 /rootfs/tmp && \
	cp /etc/ssl/certs/ca-certificates.crt /rootfs/etc/ssl/certs/ && \
	GOFLAGS="$(sh internal/build/flags.sh "$VARIANT")" CGO_ENABLED=0 GOOS="$TARGETOS" GOARCH="$TARGETARCH" \
	go build -ldflags "-s -w -X github.com/homeward-io/homeward/internal/build.version=$VERSION -X github.com/homeward-io/homeward/internal/build.commit=$COMMIT -X github.com/homeward-io/homeward/internal/build.date=$DATE" -o /rootfs/homeward ./cmd/homeward

FROM scratch AS homeward
ARG VARIANT=homeward VERSION=dev COMMIT= DATE=
LABEL org.opencontainers.image.title="$VARIANT" \
	org.opencontainers.image.description="The idempotency layer of a payments API, active-active across regions" \
	org.opencontainers.image.url="https://github.com/homeward-io/homeward" \
	org.opencontainers.image.source="https://github.com/homeward-io/homeward" \
	org.opencontainers.image.documentation="https://github.com/homeward-io/homeward/blob/main/docs/DEPLOYING.md" \
	org.opencontainers.image.licenses="Apache-2.0" \
	org.opencontainers.image.version="$VERSION" \
	org.opencontainers.image.revision="$COMMIT" \
	org.opencontainers.image.created="$DATE"
COPY --from=build /rootfs/ /
USER 65532:65532
ENTRYPOINT ["/homeward"]
