#!/bin/bash
# Writes 1 if the task is done, and 0 if not.
reward=0
expected=$(printf 'east,42\nnorth,30\nwest,7')
if [ "$(cat totals.csv 2> /dev/null)" = "$expected" ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
