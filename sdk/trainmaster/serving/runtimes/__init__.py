"""Model runtimes behind one contract: a class of the team's own, and three forms of a PyTorch module."""
