"""What servers need to be told in secret: variables of the environment, named in the catalog as ``${NAME}``.

Values are put in when a server is started, into its environment or its command line, and never into a digest or a file.
"""

import os
import re
from collections.abc import Mapping

from runners.benchmarks.mcp_atlas.specs import ServerSpec, catalog

_NAMED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SHORTEST_SECRET = 8  # what is shorter would hit plain words


def credentials_of(spec: ServerSpec) -> tuple[str, ...]:
    """Return the names of the variables that a server needs, in the order of the catalog."""
    texts = (*spec.arguments, *spec.variables.values())
    return tuple(dict.fromkeys(name for text in texts for name in _NAMED.findall(text)))


def missing_credentials(spec: ServerSpec) -> tuple[str, ...]:
    """Return those of them that are not set, or empty."""
    return tuple(name for name in credentials_of(spec) if not os.environ.get(name))


def with_credentials(text: str) -> str:
    """Return a text of the catalog with the values in it; what is not set is empty."""
    return _NAMED.sub(lambda match: os.environ.get(match[1], ""), text)


def secrets_of_servers(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the values of all servers' variables, for redaction: a server may repeat what it was told."""
    names = {name for spec in catalog().servers.values() for name in credentials_of(spec)}
    return frozenset(value for name in names if len(value := environment.get(name, "")) >= _SHORTEST_SECRET)
