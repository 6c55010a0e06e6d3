#!/bin/bash
# The steps of a training on a rented GPU; README.md beside this file says when each step
# is due.
#
#     bash benchmarks/gpu/job.sh STEP [ARGUMENT...]
#
# start MINUTES OPTION...  start the trainer, which lives on when the shell ends
# shard FILE...            hand shards to the trainer
# show [LINES]             print the last lines of the trainer
# collect OUT              copy the last save and the log to a folder
# finish SECONDS OUT       wait for the end of the training, at most so long; collect
# stop OUT                 end the training with a save; collect
# tests OUT                run the tests of what a GPU computes
# bench OUT                measure the speed of networks of the papers' size
#
# Variables: WORK, a folder outside the repository; PYTHON; TOKENIZER; SIZE of the
# networks of `bench`.
set -eu
cd "$(dirname "$0")/../.."
WORK=${WORK:-/tmp/rescore-gpu}
PYTHON=${PYTHON:-python3}
TOKENIZER=${TOKENIZER:-models/tta/tokenizer.json}
SIZE=${SIZE:-base}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
# Threads of the CPU wait for each other: on 16 cores an H200 read 550,000 tokens a second
# with a thread on each core, and 700,000 with one thread.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# PyTorch took more than a minute to compile `large.json`.
export TORCHDYNAMO_DISABLE=${TORCHDYNAMO_DISABLE:-1}

start() {
    mkdir -p "$WORK/shards" "$WORK/code"
    rm -f "$WORK/run/pid"
    # later steps may replace the repository while the trainer runs
    cp -r rescore benchmarks "$WORK/code"
    cp "$TOKENIZER" "$WORK/tokenizer.json"
    minutes=$1
    shift
    PYTHONPATH=$WORK/code${PYTHONPATH:+:$PYTHONPATH} setsid "$PYTHON" \
        "$WORK/code/benchmarks/gpu/trainer.py" --shards "$WORK/shards" \
        --out "$WORK/run" --tokenizer "$WORK/tokenizer.json" --minutes "$minutes" "$@" \
        > "$WORK/log" 2>&1 < /dev/null &
    until [ -e "$WORK/run/pid" ]; do
        kill -0 $! || { cat "$WORK/log"; exit 1; }
        sleep 0.2
    done
}

shard() {
    for file in "$@"; do
        name=$(basename "$file")
        cp "$file" "$WORK/shards/arriving"
        mv "$WORK/shards/arriving" "$WORK/shards/$name"
    done
}

show() {
    tail -n "${1:-5}" "$WORK/log"
}

collect() {
    mkdir -p "$1"
    save=$(ls -d "$WORK"/run/save-* 2> /dev/null | tail -n 1)
    if [ -n "$save" ]; then
        cp "$save"/* "$1"
    fi
    cp "$WORK/log" "$1"
    show
}

finish() {
    timeout "$1" tail --pid="$(cat "$WORK/run/pid")" -f /dev/null || true
    collect "$2"
}

stop() {
    kill "$(cat "$WORK/run/pid")"
    finish 60 "$1"
}

tests() {
    mkdir -p "$1"
    # two of these tests train compiled networks
    TORCHDYNAMO_DISABLE=0 "$PYTHON" -m pytest -m gpu tests/gpu -rs > "$1/tests.log" 2>&1 || true
    tail -n 30 "$1/tests.log"
}

bench() {
    mkdir -p "$1"
    "$PYTHON" benchmarks/models.py "$WORK/networks" tta bilm unilm --size "$SIZE"
    models=()
    for kind in tta bilm unilm; do
        models+=(--lm "$kind:$WORK/networks/$kind")
    done
    for precision in float32 bf16; do
        "$PYTHON" -m rescore bench data/test.json "${models[@]}" \
            --precision "$precision" --style markdown -o "$1/bench-$precision.json"
    done
    "$PYTHON" benchmarks/compare.py data/test.json --size "$SIZE" \
        -o "$1/compare.json"
}

"$@"
