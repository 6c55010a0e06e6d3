"""The permutation language model (Yang et al. 2019, XLNet) with the blocks of a T-TA: an order, not a diagonal.

A token of rank r in the order has the number `id + r * vocab_size`; the frame, which all see, has rank 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rescore.networks.transformer import padding_mask
from rescore.networks.tta import TTA


class Permutation(TTA):
    """A position sees the others whose rank is not above its own.

    XLNet needs two streams, as hidden vectors that later ones look at know their own tokens. Keys and values of a T-TA
    are embeddings in every layer (input isolation), so that one stream is enough: the hidden vector at i knows the
    tokens before i in the order alone, and one pass gives each factor of the chain rule. With all ranks alike this is
    a T-TA.
    """

    def plain(self, tokens: Tensor) -> Tensor:
        return tokens % self.config.vocab_size

    def visible(self, tokens: Tensor, lengths: Tensor, columns: Tensor) -> Tensor:
        rank = tokens // self.config.vocab_size
        asked = rank.gather(1, columns.expand(len(tokens), -1))
        before = (rank[:, None, :] <= asked[:, :, None]) & padding_mask(lengths, tokens.shape[1])[:, None, :]
        return before & (torch.arange(tokens.shape[1], device=tokens.device) != columns[..., None])
