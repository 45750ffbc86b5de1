"""Machines for benchmarks: network namespaces with links of a given rate, real agents in them, a store, and peers."""
