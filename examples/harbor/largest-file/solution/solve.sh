#!/bin/bash
set -e
cd tree
find . -type f -printf '%s %P\n' | sort -n | tail -n 1 | cut -d ' ' -f 2- > ../answer.txt
