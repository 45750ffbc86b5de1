"""Model runtimes behind one contract: a class of the team's own, three forms of a PyTorch module, and ONNX."""
