"""Models of transformers that listen: log p(hypothesis given recording).

A recording is encoded once, alone, so that its scores do not depend on other
recordings; all hypotheses about it are read by the decoder in one batch.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rescore.errors import UserError
from rescore.formats.audio import LONGEST, check_length, samples
from rescore.large.hub import LOGITS, cache_name, check_numbers, load_model, told
from rescore.lms.base import (
    Capabilities,
    ComputeOptions,
    Question,
    Streamed,
    TokenScores,
)
from rescore.lms.devices import DTYPES, choose_device, choose_precision
from rescore.lms.folders import content_digest
from rescore.lms.scorers import batches
from rescore.nbest import NO_AUDIO, Audio

CACHED = 2**27
"""The largest number of keys and values of one batch: 512 MiB in float32."""
LANGUAGES = 8
"""Languages that an error message lists."""
SIZES = ("max_target_positions", "max_text_positions", "max_position_embeddings")
"""Names of the decoder's length in configurations."""


@dataclass(frozen=True, slots=True)
class _Prompted:
    """The decoder after it has read the prompt, for one recording."""

    heard: Any
    """The output of the encoder for one recording."""
    cache: Any
    """Keys and values of the recording and the prompt."""
    logits: Tensor
    """Logits of the first token of a text, of shape (vocabulary,)."""


class SpeechModel(Streamed):
    """log p of each token of a text, and of its end, given a recording, by a
    sequence-to-sequence model.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        computing: ComputeOptions,
        language: str | None,
        task: str | None,
    ) -> None:
        """Load the model.

        Args:
            name: The name of the column.
            folder: The folder of the model.
            computing: The device, the precision, and tokens of a batch.
            language: A language as Whisper names it, such as de; None for the language
                of the model's generation config.
            task: `transcribe` or `translate`, of Whisper; None for the task of the
                model's generation config.

        Raises:
            UserError: The model cannot be loaded, or does not take the options.
        """
        self.name = name
        self.model = name
        self._folder = folder
        self._device = choose_device(computing.device)
        self.precision = choose_precision(computing.precision, self._device)
        if self.precision == "int8":
            raise UserError(
                "--precision int8 is not for models that listen; give float32 or bf16"
            )
        self._budget = computing.batch_tokens or 0
        self._model, self._tokenizer = load_model(
            folder, "AutoModelForSpeechSeq2Seq", "a sequence-to-sequence speech model"
        )
        self._features = load_features(folder)
        self.rate = int(self._features.sampling_rate)
        window = getattr(self._features, "n_samples", None)
        longest = LONGEST if window is None else window / self.rate
        self.capabilities = Capabilities(audio=longest)
        self._model.to(self._device, DTYPES[self.precision])
        self._case = case_of(self._tokenizer)
        start = self._start()
        self._end = int(self._tokenizer.eos_token_id)
        config = self._model.generation_config
        is_whisper = (
            hasattr(config, "no_timestamps_token_id")
            or self._model.config.model_type == "whisper"
        )
        self.leading = " " if is_whisper else ""
        """What stands before the first word of a text; Whisper writes a blank."""
        if is_whisper:
            self.prompt = [start, *self._whisper_prompt(config, language, task)]
        elif language or task:
            raise UserError(
                f"--lm {name}: language and task are options of Whisper models; leave"
                " them out"
            )
        else:
            self.prompt = [start]
            forced = getattr(config, "forced_bos_token_id", None)
            if forced is not None:
                self.prompt.append(int(forced))

    def _start(self) -> int:
        """Return the token with which the decoder starts."""
        start = self._model.generation_config.decoder_start_token_id
        if start is None:
            start = self._model.config.decoder_start_token_id
        if start is None or self._tokenizer.eos_token_id is None:
            raise UserError(
                f"{self._folder}: says no decoder_start_token_id or no end token; not a"
                " speech model"
            )
        return int(start)

    @cached_property
    def fingerprint(self) -> str:
        about = json.dumps(
            ["SpeechModel 2", [self.prompt, self.leading], self.precision]
        )
        return hashlib.sha256(about.encode() + content_digest(self._folder)).hexdigest()

    def _whisper_prompt(
        self, config: Any, language: str | None, task: str | None
    ) -> list[int]:
        """Return the tokens of language, task and no timestamps, as far as the model
        has these.
        """
        forced: dict[int, int] = {}
        for place, token in getattr(config, "forced_decoder_ids", None) or []:
            if token is not None:
                forced[place] = token
        languages: dict[str, int] = getattr(config, "lang_to_id", None) or {}
        if languages:
            language = language or getattr(config, "language", None)
            prompt = [self._language(languages, language, forced.get(1))]
            prompt += self._task(config, task)
        elif language or task:
            raise UserError(
                f"--lm {self.name}: the model has one language and one task; leave out"
                " language= and task="
            )
        else:
            prompt = list(forced.values())
        silent = getattr(config, "no_timestamps_token_id", None)
        if silent is not None and silent not in prompt:
            prompt.append(int(silent))
        return prompt

    def _language(
        self, languages: dict[str, int], language: str | None, usual: int | None
    ) -> int:
        """Return the token of a language.

        Args:
            languages: The tokens of all languages.
            language: The name of the language, such as de.
            usual: The token that is returned without a name, if there is one.
        """
        if language is None and usual is not None:
            return usual
        if language is None:
            raise UserError(
                f"--lm {self.name}: the model knows {len(languages)} languages; give"
                " hf-speech:language=en:NAME"
            )
        code = f"<|{language.strip('<|>').lower()}|>"
        if code not in languages:
            names = sorted(name.strip("<|>") for name in languages)
            known = ", ".join(names[:LANGUAGES])
            raise UserError(
                f"--lm {self.name}: {self._folder} knows no language {language}; it"
                f" knows {known} ..."
            )
        return languages[code]

    def _task(self, config: Any, task: str | None) -> list[int]:
        """Return the token of a task; no token for a model without tasks."""
        tasks: dict[str, int] = getattr(config, "task_to_id", None) or {}
        task = task or getattr(config, "task", None) or "transcribe"
        if not tasks:
            return []
        if task not in tasks:
            raise UserError(
                f"--lm {self.name}: {task} is no task of the model; it knows"
                f" {', '.join(tasks)}"
            )
        return [tasks[task]]

    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Yield the places of questions with their scores, one recording after another.

        The score is 0 where the recording is `NO_AUDIO`.
        """
        places: dict[Audio, list[int]] = {}
        for place, question in enumerate(questions):
            if question.audio is None:
                raise UserError(
                    "this model listens to the recording of an utterance; give --audio"
                )
            places.setdefault(question.audio, []).append(place)
        for audio, own in places.items():
            if audio == NO_AUDIO:
                for place in own:
                    yield place, TokenScores([], np.zeros(0))
                continue
            with torch.inference_mode(), told(self._folder):
                ids = [self.ids(questions[place].text) for place in own]
                scores = self._scores(audio, ids)
            yield from zip(own, scores, strict=True)

    def ids(self, text: str) -> list[int]:
        """Return the tokens of a text in the model's case."""
        text = " ".join(text.split())
        if text:  # an empty text is the end alone
            text = self.leading + text
        if self._case == "upper":
            text = text.upper()
        elif self._case == "lower":
            text = text.lower()
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def names(self, ids: Sequence[int]) -> tuple[list[str], tuple[int, ...]]:
        """Return tokens as texts, and the places of unknown tokens."""
        names = list(map(str, self._tokenizer.convert_ids_to_tokens(list(ids))))
        # Byte-level vocabularies know every text; some name their end token unknown.
        if self._tokenizer.unk_token == self._tokenizer.eos_token:
            return names, ()
        unknown = self._tokenizer.unk_token_id
        return names, tuple(place for place, id_ in enumerate(ids) if id_ == unknown)

    def inputs(self, audio: Audio) -> dict[str, Tensor]:
        """Return the features of a recording as the model takes them.

        Raises:
            UserError: The recording is too long, or cannot be read.
        """
        check_length(audio, self.name, self.capabilities.audio)
        features = self._features(
            samples(audio, self.rate), sampling_rate=self.rate, return_tensors="pt"
        )
        inputs = {}
        for key, value in features.items():
            inputs[key] = value.to(self._device)
            if value.is_floating_point():
                inputs[key] = inputs[key].to(DTYPES[self.precision])
        return inputs

    def _scores(
        self, audio: Audio, texts: Sequence[Sequence[int]]
    ) -> list[TokenScores]:
        """Return the scores of texts, as tokens, about one recording."""
        prompted = self._prompted(audio)
        most = self._most_tokens() - len(self.prompt)
        results: dict[int, TokenScores] = {}
        short = []
        for place, text in enumerate(texts):
            if len(text) < most:
                short.append(place)
            else:  # longer than the decoder reads: the model cannot write it
                names, _ = self.names(text)
                results[place] = TokenScores(names, np.zeros(len(text)), total=-np.inf)
        short.sort(key=lambda place: len(texts[place]))
        for batch in self._batches(prompted, short, texts):
            scores = self._decoded(prompted, [texts[place] for place in batch])
            results |= zip(batch, scores, strict=True)
        return [results[place] for place in range(len(texts))]

    def _most_tokens(self) -> int:
        """Return the number of tokens that the decoder reads."""
        for name in SIZES:
            if most := getattr(self._model.config, name, None):
                return int(most)
        return 1 << 20

    def _heard(self, inputs: dict[str, Tensor]) -> Any:
        """Return the output of the encoder for the features of a recording."""
        name = self._model.main_input_name
        known = {name: inputs[name]}
        mask = inputs.get("attention_mask")
        if mask is not None and not bool(mask.all()):
            known["attention_mask"] = mask
        heard = self._model.get_encoder()(**known, return_dict=True)
        return type(heard)(last_hidden_state=heard.last_hidden_state)

    def _prompted(self, audio: Audio) -> _Prompted:
        """Return the decoder after it has read the prompt."""
        heard = self._heard(self.inputs(audio))
        prompt = torch.tensor([self.prompt], device=heard.last_hidden_state.device)
        result = self._model(
            encoder_outputs=heard, decoder_input_ids=prompt, use_cache=True
        )
        cache = getattr(result, cache_name(self._model))
        if isinstance(cache, tuple):  # some models in transformers before 4.57
            import transformers

            kind: Any = transformers.EncoderDecoderCache
            cache = kind.from_legacy_cache(cache)
        return _Prompted(heard, cache, result.logits[0, -1])

    def _batches(
        self, prompted: _Prompted, order: Sequence[int], texts: Sequence[Sequence[int]]
    ) -> Iterator[list[int]]:
        """Yield texts of about one length, as many as memory has room for logits and
        for keys and values.

        Args:
            prompted: The decoder after the prompt.
            order: Places of texts, by length.
            texts: The tokens of the texts.
        """
        config = self._model.config.get_text_config()
        layers = getattr(config, "decoder_layers", None)
        layers = layers or getattr(config, "decoder_num_hidden_layers", None) or 12
        cached_by_row = 2 * int(layers) * prompted.heard.last_hidden_state.numel()
        rows = max(1, CACHED // cached_by_row)
        tokens = self._budget or max(64, LOGITS // len(prompted.logits))
        return batches(order, lambda place: len(texts[place]) + 1, tokens, rows)

    def _decoded(
        self, prompted: _Prompted, texts: Sequence[Sequence[int]]
    ) -> list[TokenScores]:
        """Return the scores of texts, read behind the prompt."""
        longest = max(map(len, texts))
        ids = torch.full((len(texts), longest + 1), self._end)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text, dtype=torch.long)
        states = prompted.heard.last_hidden_state
        ids = ids.to(states.device)
        logits = prompted.logits.expand(len(texts), 1, -1)
        if longest:
            cache = copy.deepcopy(prompted.cache)
            cache.batch_repeat_interleave(len(texts))
            heard = type(prompted.heard)(
                last_hidden_state=states.expand(len(texts), -1, -1)
            )
            # a mask that hides nothing: without one, transformers 4.53 fails beside
            # PyTorch 2.4 where several texts are read at once
            shown = ids.new_ones(len(texts), len(self.prompt) + longest)
            following = self._model(
                encoder_outputs=heard,
                decoder_input_ids=ids[:, :-1],
                decoder_attention_mask=shown,
                use_cache=True,
                **{cache_name(self._model): cache},
            ).logits
            logits = torch.cat([logits, following], 1)
        logits = logits.float()
        log_probs = logits.gather(-1, ids[..., None]).squeeze(-1) - logits.logsumexp(-1)
        values = log_probs.double().cpu().numpy()
        check_numbers(values, self._folder)
        results = []
        for row, text in enumerate(texts):
            names, unknown = self.names([*text, self._end])
            log_probs_of_text = values[row, : len(names)].copy()
            results.append(TokenScores(names, log_probs_of_text, unknown))
        return results


def load_features(folder: Path) -> Any:
    """Return what computes the features of a recording for a model.

    Args:
        folder: The folder of the model.

    Raises:
        UserError: The folder has no preprocessor_config.json, or a damaged one.
    """
    import transformers

    try:
        return transformers.AutoFeatureExtractor.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )
    except Exception as error:
        # The library raises many kinds of errors for an unreadable folder.
        reason = " ".join(str(error).split())[:120]
        raise UserError(
            f"{folder}: no features of sound in it ({reason}); save the processor of"
            " the model there, with preprocessor_config.json"
        ) from None


def case_of(tokenizer: Any) -> str:
    """Return the case of a vocabulary: `upper` or `lower` if its letters have one case.

    Returns:
        An empty string for a vocabulary with letters of both cases or of none, and for
        a tokenizer that lowers texts itself.
    """
    if getattr(tokenizer, "do_lower_case", False):
        return ""
    special = set(tokenizer.all_special_tokens)
    has_upper = False
    has_lower = False
    for token in tokenizer.get_vocab():
        is_marked = token[:1] + token[-1:] == "<>"
        if token not in special and not is_marked:
            has_upper = has_upper or token != token.lower()
            has_lower = has_lower or token != token.upper()
    if has_upper == has_lower:
        return ""
    return "upper" if has_upper else "lower"
