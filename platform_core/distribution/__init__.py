"""Distribution of models from a store to many nodes.

Reading order:

1. `content/`: what is delivered: manifests of files, chunks and pieces; addresses in stores; eviction
   of models from a full disk.
2. `planning/`: who receives from whom: forests of spanning trees, one strategy per file, lower bounds, estimates,
   repair.
3. `swarm/`: what a node requests from its neighbours, given its part of the plan.
4. `slow_nodes/`: how the coordinator finds nodes that receive or send slowly.
5. `deployments/`: the state machine of a deployment and its workers, its progress, history and share of links.
6. `rollouts/`: the state machine that switches nodes to a new version: canaries, hold, the rest.
"""
