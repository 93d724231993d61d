"""Script that prints how many sentences an engine translates before a fork, in the new process, and after the fork."""

import os
import threading

import torch

from compiler.program import TopK
from specs import EOS
from zoo.generation.beam_search import BeamSearch
from zoo.generation.engine import Engine
from zoo.generation.translation import SearchInput


class Ending:
    """Program whose translations are empty."""

    def encode(self, source):
        return None

    def top_k(self, state, tokens, count, allowed):
        values = torch.full((len(tokens), count), -1.0)
        return TopK(values, torch.full_like(values, EOS, dtype=torch.long), values[:, 0]), state


def translate():
    inputs = [SearchInput(i, {"source": (5, EOS)}, 6) for i in range(90)]
    return len(engine.submit(inputs, BeamSearch(1, 0.6)).result(timeout=60))


def hold_the_lock():
    with engine.queue.changed:
        held.set()
        released.wait()


engine, held, released = Engine(Ending(), workers=3, max_batch_tokens=20), threading.Event(), threading.Event()
before = translate()
threading.Thread(target=hold_the_lock).start()
held.wait()
child = os.fork()
if not child:
    found = translate()
    engine.close()
    os._exit(found)
released.set()
print(before, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), translate())
