"""C++ kernels of the native backend, and the code that compiles and loads them."""
