"""CTC models of transformers: wav2vec 2.0, HuBERT, WavLM, Wav2Vec2-BERT."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from rescore.formats.audio import LONGEST, samples
from rescore.large.hub import check_numbers, load_model, told
from rescore.large.speech import case_of, load_features
from rescore.nbest import Audio
from rescore.research.a3t.ctc import Heard


class PretrainedRecogniser:
    """A folder in Hugging Face's layout; it computes on the CPU, in float32."""

    longest = LONGEST

    def __init__(self, folder: Path) -> None:
        """
        Raises:
            UserError: The folder holds no CTC model, or its weights are pickled.
        """
        self.folder = folder
        self._model, self._tokenizer = load_model(
            folder, "AutoModelForCTC", "a CTC speech model"
        )
        self._model.float()
        self._features = load_features(folder)
        self._case = case_of(self._tokenizer)
        self.blank = int(self._model.config.pad_token_id)

    def labels(self, text: str) -> list[int]:
        plain = " ".join(text.split())
        if self._case:
            plain = getattr(plain, self._case)()
        with told(self.folder):
            tokens = self._tokenizer(plain, add_special_tokens=False)
            return list(map(int, tokens["input_ids"]))

    def names(self, labels: Sequence[int]) -> list[str]:
        tokens = self._tokenizer.convert_ids_to_tokens(list(labels))
        return [str(token) for token in tokens]

    def unknown(self, labels: Sequence[int]) -> tuple[int, ...]:
        mark = self._tokenizer.unk_token_id
        return tuple(place for place, label in enumerate(labels) if label == mark)

    def text(self, labels: Sequence[int]) -> str:
        text = self._tokenizer.decode(list(labels), group_tokens=False)
        return " ".join(str(text).split())

    def hear(self, audio: Audio) -> Heard:
        with told(self.folder):
            rate = int(self._features.sampling_rate)
            sound = samples(audio, rate)
            inputs = self._features(sound, sampling_rate=rate, return_tensors="pt")
            with torch.inference_mode():
                logits = self._model(**inputs).logits[0]
            if "attention_mask" in inputs:
                # Wav2Vec2-BERT pads features to a multiple of its step
                heard = inputs["attention_mask"].sum(-1)
                length = self._model._get_feat_extract_output_lengths(heard)
                logits = logits[: int(length)]
            log_probs = logits.double().log_softmax(-1).numpy()
        check_numbers(log_probs, self.folder)
        return Heard(log_probs, len(sound) / rate / len(log_probs))
