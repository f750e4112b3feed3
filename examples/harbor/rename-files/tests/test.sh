#!/bin/bash
# Writes 1 if the task is done, and 0 if not.
reward=0
expected="IMG-0003.txt IMG-0042.txt IMG-0117.txt notes.txt"
if [ "$(cd photos && echo *)" = "$expected" ] && [ "$(cat photos/IMG-0042.txt)" = "a bridge" ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
