"""Stands in for Horovod, which has no wheel and does not build with a PyTorch of C++17: its public names, over gloo."""
