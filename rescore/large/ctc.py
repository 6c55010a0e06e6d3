"""CTC models of transformers: log p(hypothesis given recording), summed over all alignments (Graves et al. 2006)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rescore.errors import UserError
from rescore.large.speech import ListeningModel
from rescore.lms.base import TokenScores
from rescore.nbest import Audio

IMPOSSIBLE = -torch.inf


class CtcModel(ListeningModel):
    """log p of a text given a recording, summed over all alignments of a CTC model."""

    library_class, about = "AutoModelForCTC", "a CTC speech model"

    def _prepare(self) -> None:
        if self._language is not None:
            try:
                self._tokenizer.set_target_lang(self._language)
                self._model.load_adapter(self._language)
            except Exception as error:  # the library raises many kinds of errors for a language that is not there
                reason = " ".join(str(error).split())[:120]
                raise UserError(
                    f"{self._folder}: no adapter for language {self._language} ({reason}); it is in "
                    f"adapter.{self._language}.safetensors of models as MMS"
                ) from None
        self.blank = int(self._model.config.pad_token_id)

    def frames(self, audio: Audio) -> Tensor:
        """The log-probabilities of all tokens in each frame of a recording: (frames, vocabulary) in float64."""
        inputs = self.inputs(audio)
        kept = inputs.get("attention_mask")
        result = self._model(**inputs)
        log_probs: Tensor = result.logits[0].double().log_softmax(-1).cpu()
        if kept is None or bool(kept.all()):
            return log_probs
        for owner in (self._model, getattr(self._model, "encoder", None)):
            for count in ("_get_feat_extract_output_lengths", "_get_subsampling_output_length"):
                if hasattr(owner, count):  # features are padded to a multiple of the step
                    return log_probs[: int(getattr(owner, count)(kept.sum(-1))[0])]
        return log_probs

    def _scores(self, audio: Audio, texts: Sequence[Sequence[int]]) -> list[TokenScores]:
        steps = ctc_forward(self.frames(audio), texts, self.blank).numpy()
        results = []
        for ids, row in zip(texts, steps, strict=True):
            names, unknown = self.names(ids)
            results.append(TokenScores([*names, "</s>"], row[: len(ids) + 1].copy(), unknown))
        return results


def ctc_forward(frames: Tensor, texts: Sequence[Sequence[int]], blank: int) -> Tensor:
    """log p of each token given the recording and the tokens before it, and of the end: (texts, longest + 1).

    The sum of a row is the CTC log-probability of the text. The probability of a prefix is that of all paths that
    enter its last token at some frame (Graves 2008, section 7.4). Texts that need more frames than there are have
    minus infinity, at their end.

    Args:
        frames: log-probabilities, (frames, vocabulary).
    """
    number, longest = len(texts), max((len(ids) for ids in texts), default=0)
    labels = torch.full((number, longest), blank)
    for row, ids in enumerate(texts):
        labels[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
    emitted = frames[:, labels]  # (frames, texts, longest)
    silent = frames[:, blank, None]
    repeats = torch.zeros(number, longest, dtype=torch.bool)
    repeats[:, 1:] = labels[:, 1:] == labels[:, :-1]
    # Of paths that have read the first tokens: those that end in a blank, (texts, longest + 1), and in the last token.
    in_blank = frames.new_full((number, longest + 1), IMPOSSIBLE)
    in_blank[:, 0] = 0.0
    in_label = frames.new_full((number, longest), IMPOSSIBLE)
    entered = frames.new_empty((len(frames), number, longest))
    nothing = frames.new_full((number, 1), IMPOSSIBLE)
    for time in range(len(frames)):
        before = torch.cat([nothing, in_label[:, :-1]], 1).masked_fill(repeats, IMPOSSIBLE)
        entering = torch.logaddexp(in_blank[:, :-1], before) + emitted[time]
        entered[time] = entering
        in_blank = torch.logaddexp(in_blank, torch.cat([nothing, in_label], 1)) + silent[time]
        in_label = torch.logaddexp(entering, in_label + emitted[time])
    whole = torch.logaddexp(in_blank, torch.cat([nothing, in_label], 1))
    sums = torch.cat([frames.new_zeros((number, 1)), entered.logsumexp(0), frames.new_zeros((number, 1))], 1)
    for row, ids in enumerate(texts):
        sums[row, len(ids) + 1] = whole[row, len(ids)]
        sums[row, len(ids) + 2 :] = whole[row, len(ids)]
    steps = sums.diff(dim=1)
    # Behind an impossible prefix everything is impossible: the end alone says so.
    impossible = whole[torch.arange(number), torch.tensor([len(ids) for ids in texts])].isneginf()
    for row in impossible.nonzero()[:, 0].tolist():
        steps[row] = 0.0
        steps[row, len(texts[row])] = IMPOSSIBLE
    return steps
