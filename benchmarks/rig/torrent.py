"""One BitTorrent client (libtorrent) as a process: `python -m benchmarks.rig.torrent ROLE FOLDER ADDRESS`.

ROLE is seed or leech. Prints `ready`, takes one line with the addresses of all others, prints `done` when every piece
is here and hashed, and the bytes of pieces it has uploaded on each further line.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import libtorrent

PORT = 6881
POLL_SECONDS = 0.02


def session(address: str) -> libtorrent.session:
    return libtorrent.session(
        {
            "listen_interfaces": f"{address}:{PORT}",
            "enable_dht": False,
            "enable_lsd": False,
            "enable_upnp": False,
            "enable_natpmp": False,
            "enable_outgoing_utp": False,  # over TCP it is quicker on such links
            "enable_incoming_utp": False,
            "alert_mask": 0,
        }
    )


def main() -> None:
    role, folder, address = sys.argv[1:]
    own = session(address)
    info = libtorrent.torrent_info(str(Path(folder).parent / "model.torrent"))
    parameters = libtorrent.add_torrent_params()
    parameters.ti, parameters.save_path = info, folder
    if role == "seed":
        parameters.flags |= libtorrent.torrent_flags.seed_mode
    handle = own.add_torrent(parameters)
    handle.pause()
    print("ready", flush=True)
    others = sys.stdin.readline().split()
    handle.resume()
    for other in others:
        handle.connect_peer((other, PORT))
    while role == "leech" and not handle.status().is_seeding:
        time.sleep(POLL_SECONDS)
    print("done", flush=True)
    while sys.stdin.readline():
        print(handle.status().total_payload_upload, flush=True)


if __name__ == "__main__":
    main()
