"""The kernels of the native backend, in C++."""
