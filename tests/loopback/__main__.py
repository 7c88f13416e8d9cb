"""A loopback server as a process of its own.

`python -m tests.loopback --port-file F --script NAME --lifetime SECONDS` writes its address to
the port file, and prints it, once it listens; it ends after its lifetime or at SIGTERM.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

from tests.loopback.scripts import SCRIPTS
from tests.loopback.server import Loopback

LIFETIME_S = 600.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.loopback")
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--script", choices=sorted(SCRIPTS), default="hello")
    parser.add_argument("--lifetime", type=float, default=LIFETIME_S, help="seconds")
    options = parser.parse_args()
    with Loopback(SCRIPTS[options.script], lifetime_s=options.lifetime) as server:
        signal.signal(signal.SIGTERM, lambda *_: server.stop())
        part = options.port_file.with_name(options.port_file.name + ".part")
        part.write_text(server.base_url, "utf-8")
        part.replace(options.port_file)
        print(server.base_url, flush=True)
        server.join()


main()
