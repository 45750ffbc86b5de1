"""The rules of the house as functions: each takes the root of a tree and gives the sentences of what breaks it.

Each is run twice: on this repository, where it must find nothing, and on a small tree with the violation planted,
where it must find that.
"""
