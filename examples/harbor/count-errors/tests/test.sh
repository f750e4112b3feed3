#!/bin/bash
# Writes 1 if the task is done, and 0 if not.
reward=0
expected=$(printf 'mail 3\nweb 1')
if [ "$(cat errors.txt 2> /dev/null)" = "$expected" ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
