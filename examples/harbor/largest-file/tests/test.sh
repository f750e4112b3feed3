#!/bin/bash
# Writes 1 if the task is done, and 0 if not.
reward=0
if [ "$(cat answer.txt 2> /dev/null)" = "b/c/deep.txt" ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
