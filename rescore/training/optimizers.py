"""What changes the weights: Muon for matrices, AdamW for the rest."""

from __future__ import annotations

import torch
from torch import nn

from rescore.errors import UserError
from rescore.networks.network import Network


def optimizers(
    network: Network, name: str, weight_decay: float, heads: nn.Module | None = None
) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al. 2024) for the layers' matrices, AdamW for embeddings, biases and LayerNorm; or AdamW for all.

    Muon's updates are scaled to the size of AdamW's (Liu et al. 2025, section 2.2), so that one learning rate does for
    both. Weight decay is for matrices only, as in BERT's optimiser.

    Args:
        name: `muon`, or `adamw` for all. heads: what is trained beside the network; AdamW is for all of it.

    Raises:
        UserError: this PyTorch has no Muon.
    """
    named = list(network.named_parameters())
    vectors = [value for _, value in named if value.dim() != 2]
    matrices = [value for name, value in named if value.dim() == 2 and "embedding" not in name]
    embeddings = [value for name, value in named if value.dim() == 2 and "embedding" in name]
    found: list[torch.optim.Optimizer] = []
    if name == "muon":
        if not hasattr(torch.optim, "Muon"):
            raise UserError(f"PyTorch {torch.__version__} has no Muon; install 2.9 or later, or give --optimizer adamw")
        muon = torch.optim.Muon(matrices, lr=0.0, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")
        found.append(muon)
        matrices = []
    groups = [
        {"params": [*matrices, *embeddings], "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    found.append(torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.999), eps=1e-6, fused=True))
    others = [] if heads is None else list(heads.parameters())
    if others:
        found.append(torch.optim.AdamW(others, lr=0.0, weight_decay=weight_decay, eps=1e-6, fused=True))
    return found
