#!/bin/bash
# Writes 1 if the task is done, and 0 if not.
reward=0
printf 'Red blue\nred GREEN\nblue red\n' > /tmp/first.txt
printf 'one\n' > /tmp/second.txt
if [ "$(bash count.sh /tmp/first.txt)" = 3 ] && [ "$(bash count.sh /tmp/second.txt)" = 1 ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
