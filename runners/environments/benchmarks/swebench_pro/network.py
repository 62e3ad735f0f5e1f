"""Which installers a run script calls, and how each of them says that the network failed it."""

import re

# What a connection without a network ends with, in the words of Node.js, curl, Python and the C library.
_LOST = (
    "ENOTFOUND|EAI_AGAIN|E(SOCKET)?TIMEDOUT|ERR_SOCKET_TIMEOUT|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH"
    "|Could( not|n't) resolve|Temporary failure|Failed to connect|Connection timed out"
)
# By installer: what in a run script calls it, and the beginning of the lines in which it gives up. Tests may write of
# lost connections too, as to a database that they wait for, but not behind an installer's own prefix.
_INSTALLERS = (
    (r"\bnpx\b|\bnpm\b[^\n;&|]*\b(install|ci|i|add)\b", rf"npm (ERR!|error) (code E(429|5[0-9][0-9])$|.*({_LOST}))"),
    (
        r"\byarn\b[^\n;&|]*\b(install|add)\b|^\s*yarn\s*$",
        rf"(error .*|[^ ]* *YN[0-9]+: .*)({_LOST}|Request failed .*(429|5[0-9][0-9]) )",
    ),
    (r"\bpnpm\b[^\n;&|]*\b(install|i|add)\b", rf" *ERR_PNPM_.*({_LOST}|_FETCH_5[0-9][0-9])"),
    (
        r"\bpip[0-9.]*\b[^\n;&|]*\binstall\b",
        r" *(WARNING: Retrying .* after connection broken by|ERROR: .*HTTPS?Connect)",
    ),
    (
        r"\bgo (get|install|mod|test|list|build|run|vet)\b",
        r"(go: |[^ ]+\.go:[0-9]+:[0-9]+: ).*: Get \"?https?://.*: dial tcp",
    ),
    (r"\bcargo (install|fetch|add|build|test)\b", rf" *\[[0-9]+\] .*({_LOST})"),
    (r"\b(gem|bundle) install\b", r" *(Unable to download data from|Could not (reach host|fetch specs))"),
    (r"\bapt(-get)?\b[^\n;&|]*\b(install|update)\b", rf"[EW]: Failed to fetch .*({_LOST})"),
)


def lost_network_pattern(run_script: bytes) -> str:
    """Return an extended regular expression for the lines in which an installer of a run script lost the network.

    It is empty if the script calls no installer: then whatever the output says, the tests say it.
    """
    text = re.sub(r"(?m)^\s*#.*$", "", run_script.decode("utf-8", "replace"))
    said = [line for call, line in _INSTALLERS if re.search(call, text, re.MULTILINE)]
    return f"^({'|'.join(said)})" if said else ""
