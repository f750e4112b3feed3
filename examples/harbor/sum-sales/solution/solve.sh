#!/bin/bash
set -e
tail -n +2 sales.csv | awk -F , '{ sum[$2] += $3 } END { for (region in sum) print region "," sum[region] }' | sort > totals.csv
