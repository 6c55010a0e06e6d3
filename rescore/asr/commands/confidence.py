"""`rescore confidence`: how certain each word of the decided texts is."""

from __future__ import annotations

from dataclasses import dataclass

from rescore import formats
from rescore.asr.confidence import check_ending, check_times, confidences, write
from rescore.cli import options
from rescore.config import RunConfig
from rescore.dataset import NO_LISTS
from rescore.files import ending_of
from rescore.formats import audio
from rescore.formats.times import TIMED
from rescore.metrics.texts import warn_of_texts
from rescore.options import Suited, read_file, written_file
from rescore.plan import resolve
from rescore.tuning import suited


def _is_timed(path: str) -> bool:
    return ending_of(path) in TIMED


@dataclass(frozen=True, kw_only=True)
class WordsFile(options.Lists):
    """The lists, and the file of decided words with their confidences."""

    output: tuple[str, ...] = written_file(
        (),
        "Write words and confidences: .ctm or .jsonl; or the words as subtitles: .srt"
        " or .vtt. May be repeated.",
        "-o",
        "--output",
        required=True,
    )
    segments: str | None = read_file(
        None,
        "Kaldi segments file with the start and end of each utterance; a file with"
        " times needs it if the lists have no times of words.",
        needs="output",
        suits={"output": Suited(_is_timed, lambda: "FILE.ctm")},
    )


@options.command(
    "confidence",
    config=options.config("confidence"),
    inputs=options.NOT_HEARD,
)
def command(
    file: WordsFile,
    weights: options.TunedWeights,
    dev: options.DevLists,
    config: RunConfig,
    inputs: options.InputOptions,
) -> None:
    """Write each word of the output with the probability that it is right.

    \b
    rescore tune dev.tta.jsonl -o weights.json
    rescore confidence test.tta.jsonl --weights weights.json --dev dev.tta.jsonl \\
        -o test.words.jsonl

    The confidence of a word is the total posterior of the hypotheses that have the word
    in the same place. With --dev, the scale of the posteriors is tuned for the best
    normalised cross entropy, and the confidences are corrected by isotonic regression.
    If the lists have references, the command prints the quality of the confidences with
    and without calibration. Words have the times of the lists or of --segments.
    """
    segments = None
    if file.segments:
        segments = audio.Segments(file.segments)
    for path in file.output:
        check_ending(path)
    loaded = weights.load()
    lists = inputs.read(file.nbest)
    for path in file.output:
        check_times(path, lists, segments)
    dev_lists = NO_LISTS
    if dev.dev:
        dev_lists = inputs.read_dev(dev)
    suited(loaded, [*lists, *dev_lists], weights.force_weights)
    plan = resolve(config, dev_lists or lists, weights=loaded)
    warn_of_texts(plan.metric, lists)
    confident = confidences(plan, lists, dev_lists)
    for path in file.output:
        with formats.opened(path) as opened:
            write(path, opened, lists, confident, segments)
    quality = str(confident)
    if quality:
        options.show(quality)
