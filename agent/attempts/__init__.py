"""The life of an attempt on this node, from what is wanted to how it ended."""
