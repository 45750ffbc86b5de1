"""In the end a node asks others than it followed for what they left out."""

from __future__ import annotations

from dataclasses import replace

from agent.transfer.behind import Behind
from platform_core.distribution.forest import STORE
from platform_core.distribution.manifest import Manifest
from tests.agent.transfer.rig import PIECE, GatedStore, Node, completed, delivery


async def gives_all_but(left_out: range, giver: Node, taker: Node, manifest: Manifest) -> None:
    """What one that leapt holds."""
    whole, part = giver.holdings.landing(manifest.id), await taker.holdings.open(manifest)
    assert whole is not None
    async with Behind(part, lambda size: None, lambda error: None) as disk:
        for number in range(part.count):
            data = [whole.read(whole.piece_at(number))]
            if number not in left_out and await part.verify(number, data):
                await disk.write(number, data)


async def test_a_helper_gives_what_the_parent_left_out_and_nothing_else(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    helper, parent, node = nodes[:3]
    store.open()
    helper.begin(delivery(manifest, store.url))
    assert completed(await helper.ended())
    store.broken = True
    left_out = range(10, 20)
    await gives_all_but(left_out, helper, parent, manifest)
    order = delivery(manifest, store.url, parent)
    node.begin(replace(order, peers=(*order.peers, helper.peer), lanes=((parent.name, STORE),)))
    assert completed(await node.ended())
    landing = helper.holdings.landing(manifest.id)
    assert landing is not None
    assert landing.sent.total == len(left_out) * PIECE
