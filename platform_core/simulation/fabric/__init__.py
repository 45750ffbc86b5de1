"""One model over simulated links: the planners and the swarm, without bytes."""
