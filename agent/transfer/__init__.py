"""Models on their way to this node and on to its neighbours.

Read from the bottom up; each folder knows only those before it.

disk/    one model's files: `landing` from first piece to finished model, `bitmap`, `lane_book`, `writer`, `batches`,
         `whole_files`; then all models: `homes`, `holdings`, `cache`
store/   pieces from the platform's store: `ranges` reads one range, `sources` makes pieces of them
peers/   pieces from and to other nodes: `link` paces, `frames` is the wire, `neighbour` receives, `server` sends,
         `credentials` is mutual TLS
orders/  what the platform wants: `pull` and `receiver` carry out one delivery, `deployments` all of them,
         `activation` switches the version in use, with `hooks`
"""
