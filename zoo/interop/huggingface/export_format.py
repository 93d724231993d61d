"""transformers' Marian: `config.json`, safetensors, `vocab.json`, two SentencePiece models.

It has post-norm, biases everywhere and sinusoids of its own. Whatever the positions of a bundle are, they are written
out as a table, which transformers takes in place of its own.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from specs import PAD
from zoo.files.atomic import write_json
from zoo.interop.exported import Bundle, Checked
from zoo.interop.huggingface import export_network as network
from zoo.interop.huggingface import export_settings as settings
from zoo.interop.huggingface import export_vocabularies as vocabularies
from zoo.interop.huggingface.engine import quiet
from zoo.interop.huggingface.format import HuggingFaceMarian as Format
from zoo.interop.read_back import require_same


class HuggingFaceMarian:
    """`zoo.interop.exported.Target`."""

    name = "hf-marian"
    description = "a folder of transformers' MarianMTModel"

    def write(self, bundle: Bundle, folder: Path) -> list[str]:
        """Weights, settings, vocabularies. Raises ZooError, by name, for what MarianMTModel has not."""
        network.require_marian(bundle.spec)
        vocabularies.require_models(bundle.vocabulary)
        tensors = dict(network.tensors(bundle.spec, bundle.tensors))
        safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        write_json(folder / "config.json", settings.config(bundle.spec))
        write_json(folder / "generation_config.json", settings.generation(bundle.spec))
        vocabularies.write(bundle, folder)
        return settings.differences(bundle.spec)

    def check(self, bundle: Bundle, folder: Path) -> Checked | None:
        """Tensors read back, and the log-probabilities of the proof by transformers."""
        require_same(bundle, Format(), folder)
        if find_spec("transformers") is None:
            return None
        transformers = quiet()
        model: Any = transformers.MarianMTModel.from_pretrained(folder)
        model.eval()
        proof = bundle.proof
        source, target = proof.source, proof.target
        with torch.no_grad():
            logits = model(
                input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target[:, :-1]
            ).logits
        found = logits.log_softmax(-1).gather(2, target[:, 1:].unsqueeze(2)).squeeze(2)
        difference = (found - proof.log_probabilities).masked_fill(target[:, 1:] == PAD, 0).abs().max()
        return Checked(f"transformers {transformers.__version__}", float(difference))
