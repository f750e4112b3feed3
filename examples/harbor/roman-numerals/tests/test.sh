#!/bin/bash
# Writes 1 if the task is done, and 0 if not.
reward=0
is() { [ "$(bash roman.sh "$1" 2> /dev/null)" = "$2" ]; }
if is 4 IV && is 1994 MCMXCIV && is 3999 MMMCMXCIX && is 40 XL && is 0 "" && is ten "" &&
  ! bash roman.sh 4000 > /dev/null 2>&1; then
  reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
