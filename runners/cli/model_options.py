"""Shared code of the commands that call a paid model: its options, the model they name, and the closing messages."""

import argparse
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lhaw_record.recorder.cli.arguments import positive_seconds
from lhaw_record.recorder.cli.command import argument, repeatable
from lhaw_record.recorder.cli.output import say
from lhaw_record.runners.base.errors import UNKNOWN_COST, ExperimentError
from lhaw_record.runners.models.costs import price_of, reports_cost

if TYPE_CHECKING:
    from lhaw_record.runners.models.llm_jobs.paid_work import PaidWork
    from lhaw_record.runners.models.protocol import Model

_ATTEMPTS = 3
"""How often a request that gets no answer in time is sent: rarely, because no trial is lost if it fails."""

MODEL_OPTIONS = (
    argument("--api-base", help="the address of an OpenAI-compatible server"),
    argument("--api-key-env", metavar="NAME", help="the environment variable that holds the key"),
    argument("--price", nargs=2, type=float, metavar=("IN", "OUT"), help="USD per million input and output tokens"),
    repeatable("--parameter", "NAME=VALUE", "a generation parameter; the value is JSON"),
    argument("--max-cost-usd", type=float, metavar="USD", help="the most that this command may spend"),
    argument(
        "--request-timeout",
        type=positive_seconds,
        default=600.0,
        metavar="S",
        help="the timeout of one request in seconds; a request is sent at most three times (default: %(default)g)",
    ),
)


def request_limits(options: argparse.Namespace) -> dict[str, Any]:
    """Return the limits of one request, as a model caller takes them."""
    from lhaw_record.runners.models.call_outcomes import RetryPolicy

    return {"request_timeout_s": options.request_timeout, "retry": RetryPolicy(max_attempts=_ATTEMPTS)}


def model_parameters(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """Return the generation parameters: the named model's defaults, overridden by the ones given as NAME=VALUE."""
    from lhaw_record.runners.experiment.tables import ModelSpec

    parameters = json_values("--parameter", options.parameter)
    return ModelSpec(model=name, api_base=options.api_base, parameters=parameters).generation_parameters


def json_values(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return the values of an option that is given as NAME=VALUE several times."""
    values = {}
    for text in texts:
        name, has_value, value = text.partition("=")
        if not has_value:
            raise ExperimentError(f"{option} {text!r} has no value; write NAME=VALUE")
        try:
            values[name] = json.loads(value)
        except ValueError:
            raise ExperimentError(f"{option} {text!r}: write NAME=VALUE, the value as JSON") from None
    return values


def named_model(option: str, name: str, options: argparse.Namespace) -> "Model":
    from lhaw_record.runners.experiment.values import Price
    from lhaw_record.runners.models.litellm_model import LitellmModel

    key = model_key(option, name, options)
    price = None
    if options.price:
        price = Price(input_usd_per_million_tokens=options.price[0], output_usd_per_million_tokens=options.price[1])
    is_priced = price or price_of(name, options.api_base) or reports_cost(name, options.api_base)
    if options.max_cost_usd is not None and not is_priced:
        raise ExperimentError(
            f"--max-cost-usd limits the cost, but the price of {name} is unknown; add --price IN OUT, in USD per "
            f"million tokens (0 0 if it is free)"
        )
    given = json_values("--parameter", options.parameter)
    return LitellmModel(name, api_base=options.api_base, api_key=key, price=price, given=given)


def model_key(option: str, name: str, options: argparse.Namespace) -> str | None:
    """Return the API key from the variable that ``--api-key-env`` names, or None to use the provider's own variable."""
    from lhaw_record.runners.experiment.tables import SCRIPTED
    from lhaw_record.runners.models.litellm_library import key_problem, missing_credentials

    if name.startswith(SCRIPTED):
        raise ExperimentError(f"{option} {name}: scripted models can only be agents; name a real model")
    if options.api_key_env:
        if problem := key_problem(os.environ.get(options.api_key_env)):
            raise ExperimentError(f"--api-key-env: the environment variable {options.api_key_env} {problem}")
        return os.environ[options.api_key_env]
    missing = missing_credentials(name, options.api_base)
    if missing:
        raise ExperimentError(f"{option} {name} needs the environment variable {missing[0]}; set it")
    return None


def redacted_keys(options: argparse.Namespace) -> frozenset[str]:
    """Return the secrets that a command with these options must never record."""
    from lhaw_record.recorder.writing.redaction import secrets_of

    key = os.environ.get(options.api_key_env) if options.api_key_env else None
    return frozenset(secrets_of(os.environ) | ({key} if key else set()))


def say_failures(work: "PaidWork") -> None:
    for failure in work.failures[:5]:
        say(f"  failed: {failure.splitlines()[0]}")


def say_how_to_go_on(work: "PaidWork", another: str) -> int:
    """Print how to continue unfinished work, and return the exit code: 130 if it was interrupted, else 1."""
    again = "run the same command again to continue"
    if work.stop_reason == "cost_limit":
        again = f"the cost limit does not allow another {another}; raise --max-cost-usd, then {again}"
    if work.stop_reason == "cost_unknown":
        again = f"--max-cost-usd cannot be kept: {UNKNOWN_COST}; remove the limit, then {again}"
    say(again)
    return 130 if work.stop_reason == "interrupted" else 1
