#!/bin/bash
# Writes one reward for each checkpoint of checkpoints.toml. The exit code does not matter.
names=$(cat /task/names.txt 2> /dev/null)
expected=$'Zoë\nCleo\nBela'
adults=0
order=0
[ "$(sort <<< "$names")" = "$(sort <<< "$expected")" ] && adults=1
[ "$names" = "$(LC_ALL=C sort -r <<< "$names")" ] && [ -n "$names" ] && order=1
echo "{\"adults\": $adults, \"order\": $order}" > /logs/verifier/reward.json
