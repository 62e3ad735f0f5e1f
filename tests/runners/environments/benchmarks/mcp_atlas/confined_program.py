"""Run the program of a confined server's plan outside of a session, as a test's probe."""

import subprocess


def started(plan, **options):
    """Start a plan, with options of Popen; its standard input stays open, with the supervisor in it."""
    process = subprocess.Popen(
        plan.command,
        env=plan.environment,
        cwd=plan.directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **options,
    )
    process.stdin.write(plan.supervisor)
    process.stdin.flush()
    return process


def said_by(plan):
    """Run a plan to its end; returns what it printed."""
    with started(plan) as process:
        said = process.stdout.read().decode()
        assert process.wait() == 0
        return said
