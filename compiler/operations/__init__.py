"""Operations of the computation graph, grouped into modules.

To add an operation, write one class. The class defines everything about the operation: the type of its result, its
costs, the reference computation, the PyTorch code, the native instructions, and the traits that passes query.
"""
