#!/bin/bash
set -e
awk '$3 == "ERROR" { count[$2]++ } END { for (name in count) print name, count[name] }' service.log | sort -k 2,2nr > errors.txt
