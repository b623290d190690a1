# docs/image.md says what each target is for: wheel, collector, probe-bcc, and probe, the default.

# What runs: Python and libbpf.
FROM python:3.11-slim AS base
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends libbpf1 \
    && apt-get clean && rm -rf /var/lib/apt/lists/*

# What builds: the compiler and its LLVM stay here.
FROM base AS build
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends clang llvm libbpf-dev libc6-dev
RUN python3 -m venv /build
WORKDIR /source
COPY . .
RUN /build/bin/pip wheel -q --no-deps -w /wheels .

FROM scratch AS wheel
COPY --from=build /wheels/ /

# A virtual environment is tied to its path and its Python: both are the same in the final stage.
FROM build AS collector-environment
RUN python3 -m venv --without-pip /opt/sandbox-probe \
    && /build/bin/pip --python /opt/sandbox-probe/bin/python install -q -c requirements.lock \
        "$(echo /wheels/*.whl)[collector,postgres]"

FROM base AS collector
COPY --from=collector-environment /opt/sandbox-probe /opt/sandbox-probe
RUN ln -s /opt/sandbox-probe/bin/collector /usr/local/bin/collector \
    && groupadd --system --gid 10001 collector \
    && useradd --system --uid 10001 --gid 10001 --home-dir /var/lib/collector --create-home collector \
    && install -d -o collector -g collector /run/collector
ENV COLLECTOR_DB=/var/lib/collector/collector.db COLLECTOR_LISTEN=0.0.0.0:50551
WORKDIR /var/lib/collector
VOLUME /var/lib/collector
EXPOSE 50551
# By number, so that an engine can tell that it is not root.
USER 10001:10001
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["collector", "health"]
ENTRYPOINT ["collector"]
CMD ["serve"]

FROM build AS probe-environment
RUN python3 -m venv --without-pip /opt/sandbox-probe \
    && /build/bin/pip --python /opt/sandbox-probe/bin/python install -q -c requirements.lock \
        /wheels/*.whl

FROM base AS probe
COPY --from=probe-environment /opt/sandbox-probe /opt/sandbox-probe
COPY packaging/image/entrypoint /opt/sandbox-probe/bin/entrypoint
# Only the command: a `python` of ours on PATH would stand in for the workload's.
RUN ln -s /opt/sandbox-probe/bin/probe /usr/local/bin/probe
ENTRYPOINT ["/opt/sandbox-probe/bin/entrypoint"]
CMD ["probe", "--help"]

# With Debian's bcc, and so with LLVM, for kernels without BTF.
FROM probe AS probe-bcc
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends python3-bpfcc \
    && apt-get clean && rm -rf /var/lib/apt/lists/*

FROM probe
