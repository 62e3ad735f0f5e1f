"""A Ray cluster here: ``python -m tests.runners.runs.executors.cluster`` obeys lines and answers each with one.

    add HOME PROCESSORS    adds a node that keeps working copies of stores in HOME; answers with its number
    kill NUMBER            ends every process of a node at once, as a power cut does
    end                    ends the cluster

Its first line is the cluster's address. The head has no processors, so that every worker is on a node that can be lost.
"""

import os
import signal
import sys
from contextlib import suppress

from lhaw_record.recorder.sharing.address import HOME_VARIABLE
from tests.cli.program import descendants

OBJECT_STORE_BYTES = 80_000_000
QUICK = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000, "health_check_failure_threshold": 3}
"""A lost node is noticed within seconds, not within half a minute."""


def say(text):
    """One line, whole."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def die(node):
    """Kill a node's processes, none of which can act on the death of another."""
    raylet = node.all_processes["raylet"][0].process.pid
    pids = [raylet, *descendants(raylet)]
    for signal_number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal_number)


def main():
    """Serve until the end, or until nobody gives orders any more."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args={**head, "_system_config": QUICK})
    nodes = []
    say(cluster.address)
    try:
        for line in sys.stdin:
            match line.split():
                case ["add", home, processors]:
                    node = {"num_cpus": int(processors), "object_store_memory": OBJECT_STORE_BYTES}
                    nodes.append(cluster.add_node(**node, env_vars={HOME_VARIABLE: home}))
                    say(len(nodes) - 1)
                case ["kill", number]:
                    die(nodes[int(number)])
                    cluster.remove_node(nodes[int(number)], allow_graceful=False)
                    say("killed")
                case _:
                    break
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
