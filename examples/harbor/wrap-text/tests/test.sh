#!/bin/bash
# Writes 1 if the task is done, and 0 if not.
reward=0
words() { tr -s ' \n' '\n\n' < "$1"; }
if [ -f wrapped.txt ] && [ "$(words wrapped.txt)" = "$(words letter.txt)" ] &&
  [ "$(awk 'length > 40' wrapped.txt | wc -l)" -eq 0 ] && [ "$(grep -c '^$' wrapped.txt)" -eq 1 ]; then
  reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
