"""How the processes of an attempt are started, watched and ended on this node. One contract: contract.py."""
