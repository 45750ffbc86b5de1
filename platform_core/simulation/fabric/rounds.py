"""The schedule that attains the bound exactly where it can be attained, played piece by piece.

It is here to check the bound and the simulator, not to move anything: in step, one slow node would slow all.
"""

from __future__ import annotations


def hypercube(pieces: int, dimensions: int) -> int:
    """Rounds until 2^d - 1 workers hold all pieces, node 0 being the source.

    In round t every node pairs along dimension t mod d and sends the newest piece it holds, the source piece t. Ganesan
    and Seshadri, "On cooperative content distribution and the price of barter", ICDCS 2005. One send and one receive
    a node and round hold by construction.
    """
    newest = [0] * (1 << dimensions)
    held: list[set[int]] = [set() for _ in newest]
    rounds = 0
    while any(len(each) < pieces for each in held[1:]):
        bit = 1 << (rounds % dimensions)
        rounds += 1
        newest[0] = min(rounds, pieces)
        sent = [(node ^ bit, newest[node]) for node in range(len(newest)) if newest[node]]
        for receiver, piece in sent:
            if receiver:
                held[receiver].add(piece)
                newest[receiver] = max(newest[receiver], piece)
    return rounds
