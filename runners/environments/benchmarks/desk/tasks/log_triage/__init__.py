"""log-triage: count the failures of each service in a time window, using the right folder of logs, and report them."""
