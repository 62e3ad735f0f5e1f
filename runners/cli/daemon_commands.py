"""The commands of the daemon: ``serve``, and its clients ``submit``, ``status``, ``pause``, ``resume`` and so on."""

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from lhaw_record.recorder.cli.arguments import FORMAT, port, positive, store_option
from lhaw_record.recorder.cli.command import Argument, Command, argument
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.resources import user_name
from lhaw_record.runners.models.costs import spent_words

if TYPE_CHECKING:
    from lhaw_record.runners.runs.daemon.client import Client
    from lhaw_record.runners.runs.daemon.messages import Overview
    from lhaw_record.runners.runs.daemon.pages import MakeReport, ReadAttempt
    from lhaw_record.runners.runs.daemon.serve import Extend

_OVERVIEW = ("name", "state", "finished", "planned", "running", "given_up", "spent_usd", "max_cost_usd", "left_s")
_DAEMON = (
    store_option("the store of a daemon on this host", required=False),
    argument("--url", help="the address of the daemon, instead of --store; its token is read from LHAW_RECORD_TOKEN"),
)
_CELLS = ("agent", "condition", "finished", "successes", "planned", "running")


def serve_command(
    make_report: "MakeReport", read_attempt: "ReadAttempt", extend: "Extend", options: argparse.Namespace
) -> int:
    """Serve a store until a signal arrives. The exit code is 0 after an orderly end."""
    from lhaw_record.runners.runs.daemon.client import LEASE_TOKEN_VARIABLE, TOKEN_VARIABLE
    from lhaw_record.runners.runs.daemon.serve import ServeSettings, serve

    token = os.environ.get(TOKEN_VARIABLE) or None
    settings = ServeSettings(
        host=options.host,
        port=options.port,
        max_trials=options.max_trials,
        token=token,
        lease_token=os.environ.get(LEASE_TOKEN_VARIABLE) or None,
        gateway=options.gateway,
        gateway_url=options.gateway_url,
    )
    anyio.run(serve, options.store, settings, make_report, read_attempt, extend, say)
    return 0


def submit_command(options: argparse.Namespace) -> int:
    from lhaw_record.runners.experiment.decoding import experiment_text
    from lhaw_record.runners.runs.daemon.messages import Submission

    submission = Submission(
        config_toml=experiment_text(options.experiment), path=str(options.experiment.resolve()), by=user_name()
    )
    _tell(_client(options).submit(submission).overview)
    return 0


def status_command(options: argparse.Namespace) -> int:
    """Print the status of experiments. The exit code is 1 if the named experiment cannot run or has failed trials."""
    client = _client(options)
    if options.name is None:
        print_rows([_row(each) for each in client.list().experiments], _OVERVIEW, options.format)
        return 0
    detail = client.status(options.name)
    if options.format == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(detail), indent=1).decode() + "\n")
    else:
        _tell(detail.overview)
        print_rows([{name: getattr(cell, name) for name in _CELLS} for cell in detail.cells], _CELLS, options.format)
    return 1 if detail.overview.state in ("problem", "failed") else 0


def order_command(verb: str, options: argparse.Namespace) -> int:
    _tell(_client(options).order(options.name, verb, user_name()).overview)
    return 0


def requeue_command(options: argparse.Namespace) -> int:
    trial_ids = _client(options).requeue(options.name, user_name()).trial_ids
    say(f"{options.name}: {len(trial_ids)} trials will be attempted again")
    return 0


def retune_command(options: argparse.Namespace) -> int:
    _tell(_client(options).retune(options.name, options.concurrency, user_name()).overview)
    return 0


def attach_command(options: argparse.Namespace) -> int:
    """Act as the agent of one leased trial. The exit code is 0 if it was graded, 1 if not, 130 if it was given back."""
    from lhaw_record.runners.runs.daemon.attaching import AttachOptions, attach

    wanted = AttachOptions(
        experiment=options.experiment,
        agent=options.agent,
        folder=options.folder,
        idle_s=options.idle,
        by=user_name(),
        command=options.command,
        kept_variables=options.env or (),
    )
    return attach(_client(options), wanted, say)


def _client(options: argparse.Namespace) -> "Client":
    from lhaw_record.runners.runs.daemon.client import client_of

    return client_of(options.url, options.store)


def _row(each: "Overview") -> dict[str, Any]:
    return {name: getattr(each, name) for name in _OVERVIEW}


def _tell(each: "Overview") -> None:
    trials = "not planned yet" if each.planned is None else f"{each.finished} of {each.planned} trials finished"
    spent = spent_words(each.spent_usd, each.unpriced)
    words = f"{each.name}: {each.state.replace('_', ' ')}, {trials}, {each.running} running, {spent}"
    why = each.problem
    if each.state == "failed":
        places = ", ".join(f"{count} at {boundary}" for boundary, count in each.failures.items())
        why = f"failed attempts: {places}; `trials STORE --state missing` lists them, `show STORE TRIAL` says why"
    say(words + (f"\n  {why}" if why else ""))


def daemon_commands(make_report: "MakeReport", read_attempt: "ReadAttempt", extend: "Extend") -> tuple[Command, ...]:
    experiment = argument("name", help="the experiment")
    return (
        Command(
            name="serve",
            help="serve a store: run submitted experiments, with an API and a web page",
            description="Run submitted experiments, show them on a web page, and take commands over HTTP.",
            example="serve --store stores/team --max-trials 16",
            arguments=(
                store_option("the store: a directory or a shared address"),
                argument(
                    "--host",
                    default="127.0.0.1",
                    help="the address to listen on (default: %(default)s); any other needs a token",
                ),
                argument("--port", type=port, default=8321, help="0 chooses a free port (default: %(default)s)"),
                argument(
                    "--max-trials",
                    type=int,
                    default=8,
                    help="the most trials at a time, over all experiments (default: %(default)s)",
                ),
                argument(
                    "--gateway",
                    metavar="HOST[:PORT]",
                    default="127.0.0.1",
                    help="the address at which agents of leased trials reach their models; for agents on other "
                    "machines, an address of this machine (default: %(default)s, at a free port)",
                ),
                argument(
                    "--gateway-url", metavar="URL", help="the gateway's address in leases, if it is behind a proxy"
                ),
            ),
            function=partial(serve_command, make_report, read_attempt, extend),
        ),
        _client_command(
            "submit",
            "submit an experiment file to the daemon",
            submit_command,
            "demo.toml",
            argument("experiment", type=Path, help="the experiment file (TOML)"),
        ),
        _client_command(
            "status",
            "print the status of the daemon's experiments",
            status_command,
            "demo",
            argument("name", nargs="?", help="one experiment (default: all)"),
            FORMAT,
        ),
        _client_command(
            "pause",
            "start no more trials of an experiment",
            partial(order_command, "pause"),
            "demo",
            experiment,
            more="running trials continue to their end",
        ),
        _client_command(
            "resume",
            "continue a paused experiment",
            partial(order_command, "resume"),
            "demo",
            experiment,
            more="also retries an experiment that could not run",
        ),
        _client_command(
            "cancel",
            "stop an experiment and end its running trials",
            partial(order_command, "cancel"),
            "demo",
            experiment,
            more="submit it again to restart it",
        ),
        _client_command(
            "requeue",
            "retry the failed trials of an experiment",
            requeue_command,
            "demo",
            experiment,
            more="no other trials are run again",
        ),
        _client_command(
            "retune",
            "change how many trials run at a time",
            retune_command,
            "demo 16",
            experiment,
            argument("concurrency", type=positive, help="trials at a time from now on"),
        ),
        Command(
            name="attach",
            help="take the next trial of a leased agent and be its agent",
            description=(
                "Run a command as the agent of the next leased trial. It runs in a folder with the task's "
                "files, with OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY and "
                "LHAW_RECORD_PROMPT_FILE, _MODEL, _MCP_URL and _MCP_CONFIG. Then the files are sent back and graded. "
                "The command has your rights and no sandbox, so it can read the daemon's token. Set only "
                "LHAW_RECORD_LEASE_TOKEN, which allows nothing but leases, or use another account. Variables "
                "named *_API_KEY, *_AUTH_TOKEN, *_BASE_URL and *_API_BASE are removed: they could bypass the gateway."
            ),
            example="attach --store stores/team --agent mine -- claude -p {prompt}",
            arguments=(
                *_DAEMON,
                argument("--experiment", metavar="NAME", help="a trial of this experiment (default: any)"),
                argument("--agent", metavar="NAME", help="a trial of this agent (default: any leased agent)"),
                argument(
                    "--folder", type=Path, help="keep the task's files in this folder (default: a temporary folder)"
                ),
                argument(
                    "--idle",
                    type=positive,
                    default=600,
                    metavar="SECONDS",
                    help="the lease expires after this time without a request (default: %(default)s)",
                ),
                argument("--env", action="append", metavar="NAME", help="keep this variable; may be repeated"),
                argument(
                    "command",
                    nargs="*",
                    metavar="COMMAND",
                    help="the agent and its arguments, after --, with placeholders as for wrap (default: your shell)",
                ),
            ),
            function=attach_command,
        ),
    )


def _client_command(
    name: str,
    help_text: str,
    function: Callable[[argparse.Namespace], int],
    example: str,
    *arguments: Argument,
    more: str = "",
) -> Command:
    """Declare a command that talks to a daemon. ``more`` continues the sentence of its description."""
    return Command(
        name=name,
        help=help_text,
        description=f"{help_text[0].upper()}{help_text[1:]}{more and '; '}{more}.",
        example=f"{name} {example} --store stores/team",
        arguments=(
            *_DAEMON,
            *arguments,
        ),
        function=function,
    )
