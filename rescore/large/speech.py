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
from rescore.large.hub import LOGITS, load_model
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
"""The most numbers in the keys and values of one batch: 512 MiB in float32."""


@dataclass(frozen=True, slots=True)
class _Prompted:
    """The decoder after it has read the prompt, for one recording."""

    heard: Any
    """The output of the encoder for one recording."""
    cache: Any
    """Keys and values of the recording and the prompt."""
    logits: Tensor
    """Of the first token of a text, (vocabulary,)."""


class SpeechModel(Streamed):
    """log p of each token of a text, and of its end, given a recording, as a
    sequence-to-sequence model has it.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        computing: ComputeOptions,
        language: str | None,
        task: str | None,
    ) -> None:
        """
        Args:
            language: as Whisper names it, such as de. task: transcribe or translate, of
                Whisper. None for what the model's generation config says.
        """
        self.name = self.model = name
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
        self.capabilities = Capabilities(
            audio=LONGEST if window is None else window / self.rate
        )
        self._model.to(self._device, DTYPES[self.precision])
        self._case = case_of(self._tokenizer)
        config = self._model.generation_config
        start = config.decoder_start_token_id
        start = self._model.config.decoder_start_token_id if start is None else start
        if start is None or self._tokenizer.eos_token_id is None:
            raise UserError(
                f"{folder}: says no decoder_start_token_id or no end token; not a"
                " speech model"
            )
        whisper = (
            hasattr(config, "no_timestamps_token_id")
            or self._model.config.model_type == "whisper"
        )
        if not whisper and (language or task):
            raise UserError(
                f"--lm {name}: language and task are options of Whisper models; leave"
                " them out"
            )
        forced = getattr(config, "forced_bos_token_id", None)
        more = (
            self._whisper_prompt(config, language, task)
            if whisper
            else []
            if forced is None
            else [int(forced)]
        )
        self.prompt = [int(start), *more]
        self.leading = " " if whisper else ""
        """What stands before the first word of a text; Whisper writes a blank."""
        self._end = int(self._tokenizer.eos_token_id)

    @cached_property
    def fingerprint(self) -> str:
        about = json.dumps(["SpeechModel", [self.prompt, self.leading], self.precision])
        return hashlib.sha256(about.encode() + content_digest(self._folder)).hexdigest()

    def _whisper_prompt(
        self, config: Any, language: str | None, task: str | None
    ) -> list[int]:
        """Language, task and no timestamps, as far as the model has these."""
        languages: dict[str, int] = getattr(config, "lang_to_id", None) or {}
        tasks: dict[str, int] = getattr(config, "task_to_id", None) or {}
        forced = {
            place: token
            for place, token in getattr(config, "forced_decoder_ids", None) or []
            if token is not None
        }
        silent = getattr(config, "no_timestamps_token_id", None)
        if not languages and (language or task):
            raise UserError(
                f"--lm {self.name}: the model has one language and one task; leave out"
                " language= and task="
            )
        prompt = list(forced.values())
        if languages:
            language = language or getattr(config, "language", None)
            prompt = [self._language(languages, language, forced.get(1))]
            task = task or getattr(config, "task", None) or "transcribe"
            if tasks and task not in tasks:
                raise UserError(
                    f"--lm {self.name}: {task} is no task of the model; it knows"
                    f" {', '.join(tasks)}"
                )
            prompt += [tasks[task]] if tasks else []
        return prompt if silent is None or silent in prompt else [*prompt, int(silent)]

    def _language(
        self, languages: dict[str, int], language: str | None, usual: int | None
    ) -> int:
        """The token of a language; `usual` where no language is named."""
        if language is None and usual is not None:
            return usual
        if language is None:
            raise UserError(
                f"--lm {self.name}: the model knows {len(languages)} languages; give"
                " hf-speech:language=en:NAME"
            )
        code = f"<|{language.strip('<|>').lower()}|>"
        if code not in languages:
            known = ", ".join(sorted(name.strip("<|>") for name in languages)[:8])
            raise UserError(
                f"--lm {self.name}: {self._folder} knows no language {language}; it"
                f" knows {known} ..."
            )
        return languages[code]

    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Places of questions with their scores, a recording after the other; 0 where
        the recording is `NO_AUDIO`.
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
                yield from ((place, TokenScores([], np.zeros(0))) for place in own)
            else:
                ids = [self.ids(questions[place].text) for place in own]
                with torch.inference_mode():
                    yield from zip(own, self._scores(audio, ids), strict=True)

    def ids(self, text: str) -> list[int]:
        """The tokens of a text in the model's case."""
        text = self.leading + " ".join(text.split())
        text = getattr(text, self._case)() if self._case else text
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def names(self, ids: Sequence[int]) -> tuple[list[str], tuple[int, ...]]:
        """The tokens as texts, and the places of unknown tokens."""
        unknown = self._tokenizer.unk_token_id
        # byte-level vocabularies know every text
        if self._tokenizer.unk_token == self._tokenizer.eos_token:
            unknown = None
        names = [
            str(token) for token in self._tokenizer.convert_ids_to_tokens(list(ids))
        ]
        return names, tuple(
            place for place, token in enumerate(ids) if token == unknown
        )

    def inputs(self, audio: Audio) -> dict[str, Tensor]:
        """The features of a recording as the model takes them."""
        check_length(audio, self.name, self.capabilities.audio)
        features = self._features(
            samples(audio, self.rate), sampling_rate=self.rate, return_tensors="pt"
        )
        device, dtype = self._device, DTYPES[self.precision]
        return {
            key: (
                value.to(device, dtype)
                if value.is_floating_point()
                else value.to(device)
            )
            for key, value in features.items()
        }

    def _scores(
        self, audio: Audio, texts: Sequence[Sequence[int]]
    ) -> list[TokenScores]:
        prompted = self._prompted(audio)
        most = self._most_tokens() - len(self.prompt)
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        results: dict[int, TokenScores] = {}
        for rows in self._batches(
            prompted, [place for place in order if len(texts[place]) < most], texts
        ):
            for place, scores in zip(
                rows,
                self._decoded(prompted, [texts[place] for place in rows]),
                strict=True,
            ):
                results[place] = scores
        for place in range(len(texts)):
            # longer than the decoder reads: the model cannot write it
            if place not in results:
                results[place] = TokenScores(
                    self.names(texts[place])[0],
                    np.zeros(len(texts[place])),
                    total=-np.inf,
                )
        return [results[place] for place in range(len(texts))]

    def _most_tokens(self) -> int:
        config = self._model.config
        names = (
            "max_target_positions",
            "max_text_positions",
            "max_position_embeddings",
        )
        return next(
            (
                int(getattr(config, name))
                for name in names
                if getattr(config, name, None)
            ),
            1 << 20,
        )

    def _heard(self, inputs: dict[str, Tensor]) -> Any:
        """The output of the encoder for the features of a recording."""
        known = {
            key: value
            for key, value in inputs.items()
            if key == self._model.main_input_name or key == "attention_mask"
        }
        if (mask := known.get("attention_mask")) is not None and bool(mask.all()):
            del known["attention_mask"]
        heard = self._model.get_encoder()(**known, return_dict=True)
        return type(heard)(last_hidden_state=heard.last_hidden_state)

    def _prompted(self, audio: Audio) -> _Prompted:
        heard = self._heard(self.inputs(audio))
        prompt = torch.tensor([self.prompt], device=heard.last_hidden_state.device)
        result = self._model(
            encoder_outputs=heard, decoder_input_ids=prompt, use_cache=True
        )
        return _Prompted(heard, result.past_key_values, result.logits[0, -1])

    def _batches(
        self, prompted: _Prompted, order: Sequence[int], texts: Sequence[Sequence[int]]
    ) -> Iterator[list[int]]:
        """Texts of about one length, as many as memory has room for logits and for keys
        and values.
        """
        config = self._model.config.get_text_config()
        layers = (
            getattr(config, "decoder_layers", None)
            or getattr(config, "decoder_num_hidden_layers", None)
            or 12
        )
        rows = max(
            1, CACHED // (2 * int(layers) * prompted.heard.last_hidden_state.numel())
        )
        tokens = self._budget or max(64, LOGITS // len(prompted.logits))
        return batches(order, lambda place: len(texts[place]) + 1, tokens, rows)

    def _decoded(
        self, prompted: _Prompted, texts: Sequence[Sequence[int]]
    ) -> list[TokenScores]:
        """The scores of texts, read behind the prompt."""
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
            following = self._model(
                encoder_outputs=heard,
                decoder_input_ids=ids[:, :-1],
                past_key_values=cache,
                use_cache=True,
            ).logits
            logits = torch.cat([logits, following], 1)
        logits = logits.float()
        log_probs = logits.gather(-1, ids[..., None]).squeeze(-1) - logits.logsumexp(-1)
        values = log_probs.double().cpu().numpy()
        results = []
        for row, text in enumerate(texts):
            names, unknown = self.names([*text, self._end])
            results.append(
                TokenScores(names, values[row, : len(names)].copy(), unknown)
            )
        return results


def load_features(folder: Path) -> Any:
    import transformers

    try:
        return transformers.AutoFeatureExtractor.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )
    except (
        Exception
    ) as error:  # the library raises many kinds of errors for an unreadable folder
        raise UserError(
            f"{folder}: no features of sound in it"
            f" ({' '.join(str(error).split())[:120]}); save the processor of the model"
            " there, with preprocessor_config.json"
        ) from None


def case_of(tokenizer: Any) -> str:
    """`upper` or `lower` where a vocabulary has letters of one case only; else empty:
    texts are read as they are.
    """
    if getattr(tokenizer, "do_lower_case", False):
        return ""
    special = set(tokenizer.all_special_tokens)
    letters = "".join(
        token
        for token in tokenizer.get_vocab()
        if token not in special and token[:1] + token[-1:] != "<>"
    )
    upper, lower = letters != letters.lower(), letters != letters.upper()
    return "" if upper == lower else "upper" if upper else "lower"
