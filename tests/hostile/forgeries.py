"""Forgeries: bundles whose hashes are right, and whose proof or words are somebody's."""

from __future__ import annotations

import json
from random import Random

import safetensors.torch
import torch
import yaml

from hostile import values
from hostile.judge import right
from hostile.shelf import listed
from hostile.trial import Trial
from hostile.world import GOOD
from zoo.files import manifest

_PROOF = "proof.safetensors"


def proof(draw: Random, trial: Trial) -> None:
    """A proof that proves nothing, or what cannot be, in a bundle whose hashes are right."""
    bundle = trial.shelve(GOOD)
    good = safetensors.torch.load_file(bundle / _PROOF)
    proof = {name: tensor.clone() for name, tensor in good.items()}
    source, target, found = proof["source"], proof["target"], proof["log_probabilities"]
    what = draw.randrange(10)
    name = draw.choice(("source", "target"))
    token = draw.choice((-1, 101, 104, 2**31, 2**62, -(2**63), 1000))
    if what == 0:
        proof = {name: tensor[:0] for name, tensor in proof.items()}
    elif what == 1:
        proof = {"source": source * 0, "target": target * 0, "log_probabilities": found * 0}
    elif what == 2:
        proof[name].flatten()[draw.randrange(proof[name].numel())] = token
    elif what == 3:
        number = draw.choice((float("nan"), float("inf"), 0.5, -1e30))
        proof["log_probabilities"].flatten()[draw.randrange(found.numel())] = number
    elif what == 4:
        name = draw.choice(sorted(proof))
        proof[name] = proof[name].to(draw.choice((torch.float16, torch.uint8, torch.float64, torch.bool, torch.int32)))
    elif what == 5:
        name = draw.choice(sorted(proof))
        proof[name] = draw.choice((proof[name][:1], proof[name][:, :1], proof[name][None], proof[name].flatten()))
    elif what == 6:
        del proof[draw.choice(sorted(proof))]
    elif what == 7:
        proof[values.word(draw).encode("ascii", "replace").decode()] = torch.zeros(1)
    elif what == 8:
        proof = {"source": torch.ones(1, 60_000).long(), "target": target[:1], "log_probabilities": found[:1]}
    else:
        proof = {name: tensor[:, :1] for name, tensor in proof.items()}
    trial.tell(f"way {what}: { ({name: (tuple(t.shape), t.dtype) for name, t in proof.items()}) }, {token}")
    same = proof.keys() == good.keys() and all(
        proof[name].shape == good[name].shape and torch.equal(proof[name].to(good[name].dtype), good[name])
        for name in good
    )
    safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in proof.items()}, bundle / _PROOF)
    manifest.write(bundle)
    done = trial.zoo("verify", GOOD)
    right(done.status != 0 or same or what in (4, 7), f"verified: {done.out}")


def words(draw: Random, trial: Trial) -> None:
    """What a bundle says of itself, in a bundle whose hashes are right: a terminal must not obey it."""
    bundle = trial.shelve(GOOD)
    scores = {"dev": {"bleu": 12.3, "perplexity": 9.8, "sentences": 4, "signature": "x"}, "test": None}
    told = values.bitten(draw, scores)
    text = draw.choice(
        (json.dumps(scores), json.dumps(scores), "[" * 100_000, "", "[]", "{}{}", '{"dev": {"bleu": NaN}}')
    )
    (bundle / "scores.json").write_text(text)
    file = bundle / "spec.yaml"
    tree = yaml.safe_load(file.read_text())
    tree["description"] = draw.choice((values.word(draw), values.text(draw), "\x1b[2J\x1b]0;owned\x07", "\x9b31m"))
    if draw.random() < 0.3:
        told += values.bitten(draw, tree)
    trial.tell(f"{text[:200]!r}, {tree.get('description')!r}, {told}")
    file.write_text(yaml.dump(values.writable(tree)), encoding="utf-8", errors="surrogatepass")
    manifest.write(bundle)
    listed(draw, trial)
    if draw.random() < 0.3:
        trial.zoo("verify", GOOD)
