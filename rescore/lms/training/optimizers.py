"""Optimizers of a training: Muon for matrices where PyTorch has it, and AdamW."""

from __future__ import annotations

import logging

import torch
from torch import nn

from rescore.errors import UserError
from rescore.lms.networks import Network

log = logging.getLogger(__name__)


def optimizers(
    network: Network, name: str, weight_decay: float, heads: nn.Module | None = None
) -> list[torch.optim.Optimizer]:
    """Return the optimizers of a training.

    `muon` is Muon (Jordan et al. 2024) for the layers' matrices, and AdamW for
    embeddings, biases and LayerNorm. Its updates are scaled to the size of AdamW's (Liu
    et al. 2025, section 2.2), so one learning rate suits both. Weight decay is for
    matrices only, as in BERT's optimiser.

    Args:
        network: The network.
        name: `muon`, or `adamw` for AdamW alone.
        weight_decay: Weight decay of matrices.
        heads: Parameters of objectives, for AdamW; None for none.

    Raises:
        UserError: This version of PyTorch has no Muon.
    """
    matrices = []
    embeddings = []
    vectors = []
    for parameter_name, value in network.named_parameters():
        if value.dim() != 2:
            vectors.append(value)
        elif "embedding" in parameter_name:
            embeddings.append(value)
        else:
            matrices.append(value)
    for value in heads.parameters() if heads else ():
        if value.dim() != 2:
            vectors.append(value)
        else:
            embeddings.append(value)
    if name != "muon":
        return [_adamw([*matrices, *embeddings], vectors, weight_decay)]
    return [_muon(matrices, weight_decay), _adamw(embeddings, vectors, weight_decay)]


def usual_optimizer() -> str:
    """Return the name of the optimizer of a training that names none. PyTorch before
    2.9 has no Muon; a line says so.
    """
    if hasattr(torch.optim, "Muon"):
        return "muon"
    log.info(
        "PyTorch %s has no Muon, which learns faster: trained with AdamW; PyTorch 2.9"
        " or later has it",
        torch.__version__,
    )
    return "adamw"


def _muon(matrices: list[nn.Parameter], weight_decay: float) -> torch.optim.Optimizer:
    """Return Muon for matrices of layers."""
    if not hasattr(torch.optim, "Muon"):
        raise UserError(
            f"PyTorch {torch.__version__} has no Muon; install 2.9 or later, or"
            " give --optimizer adamw"
        )
    return torch.optim.Muon(
        matrices, lr=0.0, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"
    )


def _adamw(
    matrices: list[nn.Parameter], vectors: list[nn.Parameter], weight_decay: float
) -> torch.optim.Optimizer:
    """Return AdamW, with weight decay for the matrices alone."""
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.999), eps=1e-6, fused=True)
