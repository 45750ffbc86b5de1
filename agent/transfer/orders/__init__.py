"""The deployments and activations that the platform wants of this node."""
