#!/bin/bash
# Writes 1 if the task is done, and 0 if not.
reward=0
if [ "$(tar -tzf site.tar.gz 2> /dev/null | sed 's,^\./,,' | sort | tr '\n' ' ')" = "blog/first.html index.html " ] &&
  [ "$(tar -xzOf site.tar.gz --wildcards '*index.html')" = "<p>Home</p>" ]; then
  reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
