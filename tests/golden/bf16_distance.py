#!/usr/bin/env python3
"""bf16_distance.py FOLDER: how far Hugging Face's own bf16 run strays from the fp32 vectors of FOLDER.

Writes FOLDER/bf16_distance.json. The network is loaded as people load it for bf16 training, `from_pretrained(dtype=bfloat16)`:
weights, norm gains, residual stream and logits are bf16, no autocast (under autocast the residual stream would be fp32, unlike
Cambium's). Masters and AdamW are fp32 beside it, as mixed-precision trainers keep them: before each step the masters are
rounded into the network, after it its gradients are widened. The same program in fp32 must give the vectors back.
"""
import json
import os
import pathlib
import sys

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
import torch
import transformers
from safetensors.torch import load_file

STEPS = 3


def load(folder, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").train()


def gradients(net, ids):
    net.zero_grad(set_to_none=True)
    loss = net(ids, labels=ids).loss
    loss.backward()
    return loss.item(), {name: p.grad.float() for name, p in net.named_parameters()}


def train(net, folder, batches):
    """Three AdamW steps: losses, norms before clipping, fp32 masters behind them."""
    masters = load(folder, torch.float32)
    by_dims = [[p for p in masters.parameters() if (p.dim() >= 2) == is_matrix] for is_matrix in (True, False)]
    groups = [{"params": by_dims[0], "weight_decay": 0.1}, {"params": by_dims[1], "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, foreach=False)
    losses, norms = [], []
    for ids in batches:
        loss, found = gradients(net, ids)
        for name, p in masters.named_parameters():
            p.grad = found[name]
        norms.append(torch.nn.utils.clip_grad_norm_(masters.parameters(), 1.0, foreach=False).item())
        losses.append(loss)
        adamw.step()
        with torch.no_grad():
            for to, master in zip(net.parameters(), masters.parameters()):
                to.copy_(master)
    return losses, norms, dict(masters.named_parameters())


def relative(got, want):
    return (torch.linalg.vector_norm(got.double() - want.double()) / torch.linalg.vector_norm(want.double())).item()


def measure(folder, dtype):
    io = load_file(folder / "io.safetensors")
    net = load(folder, dtype)
    ids = io["input_ids"]
    with torch.no_grad():
        seen = net(ids, labels=ids, output_hidden_states=True)
        masked = net(ids, labels=io["labels_masked"]).loss.item()
    tensors = {f"hidden.{i}": relative(h, io[f"hidden.{i}"]) for i, h in enumerate(seen.hidden_states)}
    tensors["logits"] = relative(seen.logits, io["logits"])
    want = load_file(folder / "grads.safetensors")
    _, found = gradients(net, ids)
    grads = {name: relative(found[name], want[name]) for name in found}
    losses, norms, after = train(net, folder, io["train_ids"][:STEPS])
    with torch.no_grad():
        final = net(ids, labels=ids).loss.item()
    want = load_file(folder / "after3.safetensors")
    start = load_file(folder / "model.safetensors")
    matrices = [name for name in after if want[name].dim() >= 2]  # of a vector, one element near zero decides
    moved = lambda to: torch.cat([(to[name].detach() - start[name]).flatten() for name in matrices])
    far = lambda got, want: max(abs(a - b) for a, b in zip(got, want))
    wanted = [io[k].item() for k in ("loss", "loss_masked", "loss_after3")] + io["train_losses"].tolist()
    return {
        "relative_l2": tensors,
        "gradients_relative_l2": grads,
        "matrix_updates_relative_l2": relative(moved(after), moved(want)),
        "losses_absolute": far([seen.loss.item(), masked, final, *losses], wanted),
        "grad_norms_relative": max(abs(a / b - 1) for a, b in zip(norms, io["grad_norms"].tolist())),
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    exact = measure(folder, torch.float32)
    if max(exact["relative_l2"]["logits"], exact["losses_absolute"], *exact["gradients_relative_l2"].values()) > 1e-5:
        sys.exit(f"the vectors do not come back in fp32: {exact}")
    found = measure(folder, torch.bfloat16)
    found["versions"] = {"torch": torch.__version__, "transformers": transformers.__version__}
    (folder / "bf16_distance.json").write_text(json.dumps(found, indent=1) + "\n")


main()
