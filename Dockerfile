# The hub as an image: `docker build -t aggregator .`, then a configuration at /etc/aggregator/hub.yaml.
# docs/operate.md says which folders it writes, and what its probes ask.
FROM debian:bookworm-slim AS build
# Debian's own updates are wanted at each build; what Python needs is pinned by requirements.lock.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir uv==0.13.8
WORKDIR /src
COPY pyproject.toml requirements.lock LICENSE ./
COPY aggregator aggregator
COPY configs configs
COPY docs/runbooks docs/runbooks
COPY jobs jobs
COPY schemas schemas
RUN python3 -m venv --without-pip /opt/aggregator \
 && /opt/build/bin/uv pip install --no-cache --python /opt/aggregator/bin/python --constraint requirements.lock '.[glue,msk]'

FROM debian:bookworm-slim
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates libtcmalloc-minimal4 openjdk-17-jre-headless python3 tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --home-dir /var/lib/aggregator aggregator \
 && install -d -o aggregator -m 700 /run/aggregator /var/cache/aggregator /var/lib/aggregator
COPY --from=build /opt/aggregator /opt/aggregator
ENV PATH=/opt/aggregator/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    AGGREGATOR_CONFIG=/etc/aggregator/hub.yaml \
    AGGREGATOR_LOG_FORMAT=json \
    RUNTIME_DIRECTORY=/run/aggregator \
    XDG_CACHE_HOME=/var/cache/aggregator
USER 10001
WORKDIR /var/lib/aggregator
# Compiles the hot loops, which another kind of processor does once more.
RUN python -m aggregator.replicate.warmup
HEALTHCHECK --interval=30s --timeout=10s --start-period=2m CMD ["aggregator", "health", "live"]
ENTRYPOINT ["tini", "--", "aggregator"]
CMD ["run"]
