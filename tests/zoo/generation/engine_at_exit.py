"""Script that ends two processes while their workers run, and prints the exit statuses."""

import os
import threading
from unittest.mock import Mock

import torch

from specs import EOS
from zoo.generation.beam_search import BeamSearch
from zoo.generation.engine import Engine
from zoo.generation.translation import SearchInput

running, join = threading.Event(), threading.Thread.join


class Slow:
    def encode(self, source):
        return source

    def top_k(self, state, tokens, count, allowed):
        running.set()
        for _ in range(50):
            torch.randn(200, 200) @ torch.randn(200, 200)
        raise ValueError


for is_interrupted in (False, True):
    child = os.fork()
    if not child:
        engine = Engine(Slow(), workers=17, max_batch_tokens=20)
        future = engine.submit([SearchInput(i, {"source": (5, EOS)}, 6) for i in range(900)], BeamSearch(2, 0.6))
        running.wait()
        if is_interrupted:
            threading.Thread.join = Mock(side_effect=KeyboardInterrupt)
            try:
                engine.close()
            except KeyboardInterrupt:
                threading.Thread.join = join
        print("working", any(thread.name.startswith("search") for thread in threading.enumerate()))
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
