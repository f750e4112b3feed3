#!/bin/bash
# Writes 1 if the task is done, and 0 if not.
reward=0
expected=$(printf '2\tBo\tOslo\n9\tAda\tRome\n10\tCy\tLima')
if [ "$(cat joined.tsv 2> /dev/null)" = "$expected" ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
