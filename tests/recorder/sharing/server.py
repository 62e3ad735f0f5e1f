"""An S3-compatible server in a process of its own: ``python -m tests.recorder.sharing.server`` prints its port."""

import logging
import sys
import time

from moto.server import ThreadedMotoServer

if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    sys.stdout.write(f"{server.get_host_and_port()[1]}\n")
    sys.stdout.flush()
    while True:
        time.sleep(60)
