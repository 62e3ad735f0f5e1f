#!/bin/sh
# What a published task image does before its agent comes, by the interface that its scripts use: the company's address is
# what ping prints in brackets; a service is reset with POST, whatever is answered, and is ready when HEAD gets a 200.
set -e
address=$(ping -c 1 "${SERVER_HOSTNAME:-localhost}" | sed -n 's/^PING [^(]*(\([^)]*\)).*/\1/p')
echo "$address the-agent-company.com" >> /etc/hosts
control=http://the-agent-company.com:2999/api
for service in rocketchat plane gitlab owncloud; do
  if grep -q "$service" /utils/dependencies.yml; then
    curl -sS -X POST "$control/reset-$service"
    tries=0
    while [ "$(curl -s -o /dev/null -w '%{http_code}' -I "$control/healthcheck/$service")" != 200 ]; do
      tries=$((tries + 1))
      [ "$tries" -lt 10 ] || { echo "timeout waiting for $service"; exit 1; }
      sleep 1
    done
  fi
done
sleep 3600 > /dev/null 2>&1 & # as the simulated colleagues of other tasks
echo "${LITELLM_API_KEY:-no key}" > /workspace/given-at-init.txt
