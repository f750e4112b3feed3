#!/bin/bash
set -e
grep @ addresses.txt | tr 'A-Z' 'a-z' | sort -u > clean.txt
