"""How bytes reach many nodes: manifests, deployments, planners and their bounds."""
