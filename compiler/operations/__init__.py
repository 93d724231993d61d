"""Operations of the graph, one module for each group.

To add an operation, write one class. It declares everything that is known about it: its type rule, its costs, its
interpreter, the PyTorch code and the native instructions it becomes, and its traits.
"""
