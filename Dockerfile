# Weft for CPUs: docker build -t weft . (docs/install/kubernetes.md says how to run it, docs/install/gpu.md what GPUs need).
# Tags of the images, as of the digests: node 22-bookworm-slim, golang 1.26.8-bookworm, distroless cc-debian12:nonroot.
FROM node@sha256:6c74791e557ce11fc957704f6d4fe134a7bc8d6f5ca4403205b2966bd488f6b3 AS npm

FROM golang@sha256:9fdc884aacc3bec89b20ffc69f4bb369c78210e3e4f600387b5128b12c199f81 AS build
# ONNX Runtime comes by npm.
COPY --from=npm /usr/local /opt/node
ENV PATH=$PATH:/opt/node/bin
WORKDIR /src
# --build-arg GOFLAGS=-tags=cloud: with models from s3://, gs://, azblob:// and oci://.
ARG GOFLAGS=
COPY . .
RUN make setup build && strip bin/weft && go run ./scripts/sbom --texts >bin/THIRD_PARTY.txt

# No shell, no package manager: libc, libstdc++ and certificates of CAs.
FROM gcr.io/distroless/cc-debian12@sha256:66aa873a4a14fb164aa01296058efd8253744606d72715e45acface073359faa
LABEL org.opencontainers.image.title="Weft" \
      org.opencontainers.image.source="https://github.com/weftserve/weft" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /src/LICENSE /src/NOTICE /src/bin/THIRD_PARTY.txt /usr/share/doc/weft/
COPY --from=build /src/scripts/packages/image.yaml /etc/weft/weft.yaml
COPY --from=build /src/.weft/onnxruntime/*/lib/libonnxruntime.so /usr/lib/weft/lib/
COPY --from=build /src/bin/weft /usr/lib/weft/bin/weft
USER 65532:65532
WORKDIR /models
VOLUME ["/models"]
EXPOSE 9000 9001
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/lib/weft/bin/weft", "serve", "--config", "/etc/weft/weft.yaml"]
CMD ["/models"]
