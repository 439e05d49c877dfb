# An image of Ballast: the program, git for Functions from repositories, and nothing else. It runs as nobody in particular and
# writes only to /tmp and to volumes. `make image` builds it.
FROM node:22-bookworm AS dashboard
WORKDIR /ballast/web
COPY web/package.json web/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY web .
RUN npm run build

FROM rust:1.95-bookworm AS program
WORKDIR /ballast
COPY . .
COPY --from=dashboard /ballast/web/dist web/dist
RUN cargo build --profile dist --locked --package ballast && deploy/rootfs target/dist/ballast /rootfs

FROM scratch
COPY --from=program /rootfs /
ENV PATH=/usr/bin:/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
USER 65532:65532
ENTRYPOINT ["ballast"]
CMD ["serve"]
