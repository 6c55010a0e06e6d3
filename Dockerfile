# rescore with its shipped models, on a CPU:  docker run --rm -v "$PWD:/data" rescore test.json --lm tta --dev dev.json
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir build && python -m build --wheel

FROM python:3.12-slim
COPY --from=build /src/dist/*.whl /tmp/
# PyTorch without GPU libraries first: they are several gigabytes. KenLM takes a compiler, which is not kept.
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu torch \
 && apt-get update && apt-get install -y --no-install-recommends g++ zlib1g-dev libbz2-dev liblzma-dev \
 && pip install --no-cache-dir "$(ls /tmp/*.whl)[ngram]" \
 && apt-get purge -y g++ && apt-get autoremove -y && rm -rf /var/lib/apt/lists/* /tmp/*.whl
WORKDIR /data
ENTRYPOINT ["rescore"]
