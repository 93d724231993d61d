"""The operations of the graph. To add one: its class in a file of this folder, and its name here."""

from compiler.operations.attention import Attention, Kernel, MergeHeads, SplitHeads
from compiler.operations.beams import FoldBeams, UnfoldBeams
from compiler.operations.cache import Append, Write
from compiler.operations.embedding import Embed, Position
from compiler.operations.loss import ChunkedLoss, Loss
from compiler.operations.mask import CausalMask, Mask, PaddingMask, UnwrittenMask
from compiler.operations.operation import GraphError, Kind, Line, Operation, Shape, Type
from compiler.operations.pieces import LogSoftmax, Pick
from compiler.operations.projection import Linear, Logits, QuantisedLinear, QuantisedLogits
from compiler.operations.residual import Activation, Add, Dropout, Norm
from compiler.operations.slice import Slice

__all__ = [
    "Activation",
    "Add",
    "Append",
    "Attention",
    "CausalMask",
    "ChunkedLoss",
    "Dropout",
    "Embed",
    "FoldBeams",
    "GraphError",
    "Kernel",
    "Kind",
    "Line",
    "Linear",
    "LogSoftmax",
    "Logits",
    "Loss",
    "Mask",
    "MergeHeads",
    "Norm",
    "Operation",
    "PaddingMask",
    "Pick",
    "Position",
    "QuantisedLinear",
    "QuantisedLogits",
    "Shape",
    "Slice",
    "SplitHeads",
    "Type",
    "UnfoldBeams",
    "UnwrittenMask",
    "Write",
]
