#!/bin/bash
# Writes 1 if the task is done, and 0 if not.
reward=0
expected=$(printf 'ada@example.org\nbo@example.org\ncy@example.net')
[ "$(cat clean.txt 2> /dev/null)" = "$expected" ] && reward=1
# A second number beside the reward becomes a metric.
lines=$(grep -c @ clean.txt 2> /dev/null)
echo "{\"reward\": $reward, \"addresses\": ${lines:-0}}" > /logs/verifier/reward.json
echo "$reward" > /logs/verifier/reward.txt
