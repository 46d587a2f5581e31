"""Short tests of an NVIDIA GPU through its driver alone (`libcuda.so.1`): no CUDA toolkit, no torch, kernels as PTX."""
