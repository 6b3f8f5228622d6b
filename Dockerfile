# syntax=docker/dockerfile:1
# The image is the static binary and certificate authorities, nothing else: no shell, no package manager, no user's home.
ARG GO_IMAGE=golang:1.26
ARG CERTIFICATES_IMAGE=alpine:3

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=dev COMMIT=none
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    GOOS=${TARGETOS} GOARCH=${TARGETARCH} VERSION=${VERSION} COMMIT=${COMMIT} tools/dist.sh /out
RUN mkdir -m 1777 /out/tmp

FROM ${CERTIFICATES_IMAGE} AS certificates
RUN apk add --no-cache ca-certificates

FROM scratch
COPY --from=certificates /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/tmp /tmp
COPY --from=build /out/fetcher /fetcher
USER 65532:65532
EXPOSE 4006 4007
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["/fetcher", "healthcheck"]
ENTRYPOINT ["/fetcher"]
CMD ["serve"]
