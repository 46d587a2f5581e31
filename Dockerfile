# The controller and the command line, without a compiler, without pip packages of its own besides those of
# image/requirements.txt, as user 65532. Build with a digest to pin the base:
#   docker build --build-arg PYTHON=docker.io/library/python@sha256:… --tag gpu-reconciler:0.1.0 .
ARG PYTHON=docker.io/library/python:3.11.14-slim-bookworm

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY image ./image
RUN python -m venv /opt/build \
 && /opt/build/bin/python -m pip install --require-hashes --only-binary=:all: --requirement image/build.txt \
 && python -m venv --without-pip /opt/reconciler \
 && /opt/build/bin/python -m pip --python /opt/reconciler/bin/python install --require-hashes --only-binary=:all: --requirement image/requirements.txt
COPY . .
RUN /opt/build/bin/python -m pip wheel --no-build-isolation --no-deps --wheel-dir /opt/dist . \
 && /opt/build/bin/python -m pip --python /opt/reconciler/bin/python install --no-deps --no-index --find-links /opt/dist gpu-reconciler

FROM ${PYTHON}
LABEL org.opencontainers.image.title="gpu-reconciler" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN apt-get update \
 && apt-get install --yes --no-install-recommends git=1:2.39.* openssh-client=1:9.2* iputils-ping=3:20221126* iperf3=3.12* \
# A copy has no file capability, with which it could not start in a container that drops all of them
 && cp /usr/bin/ping /usr/local/bin/ping \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 65532 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin reconciler
COPY --from=build /opt/reconciler /opt/reconciler
ENV PATH=/opt/reconciler/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["reconciler"]
CMD ["--help"]
