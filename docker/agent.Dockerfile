# A node's agent with PyTorch, so that the process launcher can run torchrun in the same container. On a GPU machine:
#   docker build -f docker/agent.Dockerfile -t trainmaster/agent .
#   docker run -d --init --gpus all --network host --ipc host -v /var/lib/trainmaster:/data \
#     -e TRAINMASTER_AGENT_SERVER=control.example:7600 -e TRAINMASTER_AGENT_TOKEN=… trainmaster/agent

FROM python:3.11-slim AS packages
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /app
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY platform_core platform_core
COPY agent agent
COPY sdk sdk
COPY proto proto
RUN pip install --constraint requirements.lock setuptools \
    && pip install --constraint requirements.lock --no-build-isolation --editable ".[agent,train]"

FROM python:3.11-slim
RUN useradd --system --uid 10001 --create-home trainmaster && install -d -o trainmaster /data
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 TRAINMASTER_AGENT_DATA=/data
WORKDIR /app
COPY --from=packages /venv /venv
COPY --from=packages /app /app
USER trainmaster
VOLUME /data
# The rendezvous of torchrun and the transfer of chunks use the ports of TRAINMASTER_AGENT_RENDEZVOUS_PORTS and
# TRAINMASTER_AGENT_TRANSFER_PORT: the host's network is the simplest way to give them.
CMD ["trainmaster", "agent"]
