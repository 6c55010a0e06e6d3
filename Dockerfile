# rescore with its shipped models, on a CPU. It does not run as root, so files that it writes need your own user:
#   docker run --rm -v "$PWD:/data" --user "$(id -u):$(id -g)" rescore test.json --lm tta --dev dev.json --best best.trn
# The service:
#   docker run --rm -v "$PWD:/data" -p 8000:8000 rescore serve --host 0.0.0.0 --weights weights.json --lm tta
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir build && python -m build --wheel

FROM python:3.12-slim
COPY --from=build /src/dist/*.whl /tmp/
# PyTorch without GPU libraries first: they are several gigabytes. KenLM takes a compiler, which is not kept.
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu torch \
 && apt-get update && apt-get install -y --no-install-recommends g++ zlib1g-dev libbz2-dev liblzma-dev \
 && pip install --no-cache-dir "$(ls /tmp/*.whl)[ngram,serve]" \
 && apt-get purge -y g++ && apt-get autoremove -y && rm -rf /var/lib/apt/lists/* /tmp/*.whl
# any user may have caches
ENV HOME=/tmp
USER 1000:1000
EXPOSE 8000
# only `serve` answers requests; the check asks the port of its --port
HEALTHCHECK --start-period=60s CMD ["python", "-m", "rescore.service.health"]
WORKDIR /data
ENTRYPOINT ["rescore"]
